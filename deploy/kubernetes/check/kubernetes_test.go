// Package check builds the kustomize files beside it and decodes the output strictly into the types
// of Kubernetes. It is a module of its own, because only this test needs these types.
package check

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

var stages = []string{"arbiter", "auditor", "ingest", "sentinels"}

// installation has the objects that kustomize makes from the example.
type installation struct {
	sets     map[string]*appsv1.StatefulSet
	services map[string]*corev1.Service
	budgets  map[string]*policyv1.PodDisruptionBudget
	secrets  map[string]*corev1.Secret
	policies []*networkingv1.NetworkPolicy
	trim     *batchv1.CronJob
}

// build copies the base and the example, with stand-ins for the secrets, and builds it.
func build(t *testing.T) *installation {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"base", "example"} {
		if err := os.CopyFS(filepath.Join(dir, d), os.DirFS(filepath.Join("..", d))); err != nil {
			t.Fatal(err)
		}
	}
	var k types.Kustomization
	b, err := os.ReadFile(filepath.Join(dir, "example", "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(b, &k); err != nil {
		t.Fatal(err)
	}
	for _, s := range k.SecretGenerator {
		for _, f := range s.FileSources {
			if _, path, named := strings.Cut(f, "="); named {
				f = path
			}
			write(t, filepath.Join(dir, "example", f), []byte("a stand-in for "+f))
		}
	}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(),
		filepath.Join(dir, "example"))
	if err != nil {
		t.Fatal(err)
	}
	in := &installation{sets: map[string]*appsv1.StatefulSet{}, services: map[string]*corev1.Service{},
		budgets: map[string]*policyv1.PodDisruptionBudget{}, secrets: map[string]*corev1.Secret{}}
	for _, r := range made.Resources() {
		name := r.GetName()
		var o any
		switch r.GetApiVersion() + " " + r.GetKind() {
		case "apps/v1 StatefulSet":
			in.sets[name] = new(appsv1.StatefulSet)
			o = in.sets[name]
		case "v1 Service":
			in.services[name] = new(corev1.Service)
			o = in.services[name]
		case "policy/v1 PodDisruptionBudget":
			in.budgets[name] = new(policyv1.PodDisruptionBudget)
			o = in.budgets[name]
		case "v1 Secret":
			in.secrets[name] = new(corev1.Secret)
			o = in.secrets[name]
		case "networking.k8s.io/v1 NetworkPolicy":
			in.policies = append(in.policies, new(networkingv1.NetworkPolicy))
			o = in.policies[len(in.policies)-1]
		case "batch/v1 CronJob":
			in.trim = new(batchv1.CronJob)
			o = in.trim
		case "v1 Namespace":
			o = new(corev1.Namespace)
		default:
			t.Fatalf("%s %s is not known to this test", r.GetApiVersion(), r.GetKind())
		}
		b, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(b, o); err != nil {
			t.Errorf("%s %s: %v", r.GetKind(), name, err)
		}
		if r.GetKind() != "Namespace" && r.GetNamespace() != "lazaret" {
			t.Errorf("%s %s is in the namespace %q", r.GetKind(), name, r.GetNamespace())
		}
	}
	return in
}

func TestEachDaemonHasItsServiceBudgetAndLimits(t *testing.T) {
	in := build(t)
	if got := slices.Sorted(maps.Keys(in.sets)); !slices.Equal(got, stages) {
		t.Fatalf("the daemons are %v", got)
	}
	for name, s := range in.sets {
		labels := s.Spec.Template.Labels
		if s.Spec.Replicas == nil || *s.Spec.Replicas != 2 {
			t.Errorf("%s does not run two times", name)
		}
		svc := in.services[s.Spec.ServiceName]
		if svc == nil || svc.Spec.ClusterIP != corev1.ClusterIPNone || !maps.Equal(svc.Spec.Selector, labels) {
			t.Errorf("%s has no headless service of its pods", name)
		}
		b := in.budgets[name]
		if b == nil || !maps.Equal(b.Spec.Selector.MatchLabels, labels) || b.Spec.MaxUnavailable.IntValue() != 1 {
			t.Errorf("%s may be disrupted", name)
		}
		checkPod(t, in, name, &s.Spec.Template)
		if p := s.Spec.Template.Spec.Containers[0]; p.ReadinessProbe == nil || p.LivenessProbe == nil {
			t.Errorf("%s is not probed", name)
		}
		if c := s.Spec.VolumeClaimTemplates; len(c) != 1 || c[0].Name != "state" {
			t.Errorf("%s has no claim named state", name)
		}
	}
}

// A trim and an erasure wait for keys, so two auditors with one key would count as one. The container that copies the
// secret runs here, for each pod.
func TestEachAuditorHasItsOwnKey(t *testing.T) {
	in := build(t)
	set := in.sets["auditor"]
	secret := t.TempDir()
	for _, v := range set.Spec.Template.Spec.Volumes {
		if v.Secret == nil {
			continue
		}
		for _, i := range v.Secret.Items {
			write(t, filepath.Join(secret, i.Path), in.secrets[v.Secret.SecretName].Data[i.Key])
		}
	}
	c := set.Spec.Template.Spec.InitContainers[0]
	if len(c.Env) != 1 || c.Env[0].ValueFrom.FieldRef.FieldPath != "metadata.name" {
		t.Fatalf("the container does not know its pod: %v", c.Env)
	}
	pods := make(map[string]int32) // by key
	for i := range *set.Spec.Replicas {
		lz := t.TempDir()
		var args []string
		for _, a := range c.Command[1:] {
			args = append(args, strings.NewReplacer("/secret", secret, "/lz/", lz+"/").Replace(a))
		}
		cmd := exec.Command(c.Command[0], args...)
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s-%d", c.Env[0].Name, set.Name, i))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("pod %d: %v: %s", i, err, out)
		}
		var all []string
		if err := filepath.WalkDir(lz, func(path string, d os.DirEntry, err error) error {
			if err == nil && filepath.Ext(path) == ".key" && filepath.Base(path) != "audit-master.key" {
				all = append(all, strings.TrimPrefix(path, lz))
			}
			return err
		}); err != nil || !slices.Equal(all, []string{"/keys/auditor.key"}) {
			t.Fatalf("pod %d has the signing keys %v, %v", i, all, err)
		}
		key, err := os.ReadFile(filepath.Join(lz, all[0]))
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := pods[string(key)]; ok {
			t.Errorf("pods %d and %d have one key", other, i)
		}
		pods[string(key)] = i
	}
}

// write writes a file and makes its folder.
func write(t *testing.T, file string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTheLedgerIsTrimmedBesideAnAuditor(t *testing.T) {
	in := build(t)
	if in.trim == nil {
		t.Fatal("no job trims the ledger")
	}
	pod := &in.trim.Spec.JobTemplate.Spec.Template
	checkPod(t, in, "trim", pod)
	for _, v := range pod.Spec.Volumes {
		if v.Name == "state" && v.PersistentVolumeClaim.ClaimName != "state-auditor-0" {
			t.Errorf("it reads the volume %s", v.PersistentVolumeClaim.ClaimName)
		}
	}
}

func TestAPolicyOfTheNetworkCoversEachPod(t *testing.T) {
	in := build(t)
	if len(in.policies) != 1 {
		t.Fatalf("%d policies", len(in.policies))
	}
	p := in.policies[0].Spec
	if len(p.PolicyTypes) != 2 || len(p.Ingress) == 0 || len(p.Egress) == 0 {
		t.Errorf("the policy leaves a direction open: %v", p.PolicyTypes)
	}
	for name, s := range in.sets {
		for k, v := range p.PodSelector.MatchLabels {
			if s.Spec.Template.Labels[k] != v {
				t.Errorf("the policy does not cover %s", name)
			}
		}
	}
}

// checkPod checks the limits and rights of a pod, and that its secret has exactly the files that the
// pod mounts.
func checkPod(t *testing.T, in *installation, name string, p *corev1.PodTemplateSpec) {
	t.Helper()
	sc := p.Spec.SecurityContext
	if sc == nil || sc.RunAsNonRoot == nil || !*sc.RunAsNonRoot || sc.FSGroup == nil || *sc.FSGroup != *sc.RunAsGroup {
		t.Errorf("%s may run as root, or cannot read its files", name)
	}
	if a := p.Spec.AutomountServiceAccountToken; a == nil || *a {
		t.Errorf("%s gets a token of the cluster", name)
	}
	for _, c := range p.Spec.Containers {
		if c.Resources.Limits.Memory().IsZero() || c.Resources.Limits.Cpu().IsZero() ||
			c.Resources.Requests.Memory().IsZero() {
			t.Errorf("%s has no limits", name)
		}
		if s := c.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
			*s.AllowPrivilegeEscalation {
			t.Errorf("%s may write to its root, or get more rights", name)
		}
		if !strings.HasPrefix(c.Image, "registry.example/") {
			t.Errorf("%s runs the image %s", name, c.Image)
		}
	}
	for _, v := range p.Spec.Volumes {
		if v.Secret == nil {
			continue
		}
		s := in.secrets[v.Secret.SecretName]
		if v.Secret.SecretName != "lazaret-"+name || s == nil || *v.Secret.DefaultMode != 0o440 {
			t.Errorf("%s mounts the secret %s", name, v.Secret.SecretName)
			continue
		}
		var mounted []string
		for _, i := range v.Secret.Items {
			mounted = append(mounted, i.Key)
		}
		slices.Sort(mounted)
		if got := slices.Sorted(maps.Keys(s.Data)); !slices.Equal(got, mounted) {
			t.Errorf("%s: the secret holds %v and %v is mounted", name, got, mounted)
		}
	}
}
