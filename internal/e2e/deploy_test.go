package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// The files in deploy/ must be valid YAML, and every program and flag in them must exist.
func TestTheFilesForDeploymentNameFlagsThatExist(t *testing.T) {
	t.Parallel()
	help := map[string]string{}
	for _, p := range []string{"lazaret", "ingest", "sentinels", "arbiter", "auditor"} {
		args := []string{"--help"}
		if p == "lazaret" {
			args = []string{"up", "--help"}
		}
		out, err := exec.Command(filepath.Join(bin, p), args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		help[p] = string(out)
	}
	out, err := exec.Command(filepath.Join(bin, "lazaret"), "audit", "trim", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	help["lazaret audit trim"] = string(out)
	if out, err = exec.Command(filepath.Join(bin, "lazaret"), "server", "part", "--help").Output(); err != nil {
		t.Fatal(err)
	}
	help["lazaret server part"] = string(out)
	flags := regexp.MustCompile(`--[a-z][a-z-]+`)
	known := func(file string, programs []string, line string) {
		t.Helper()
		for _, f := range flags.FindAllString(line, -1) {
			for _, p := range programs {
				if !regexp.MustCompile(`(?m)(^|[\s,])` + f + `\b`).MatchString(help[p]) {
					t.Errorf("%s: %s has no flag %s", file, p, f)
				}
			}
		}
	}
	var compose struct {
		Services map[string]struct {
			Entrypoint []string `yaml:"entrypoint"`
			Command    []string `yaml:"command"`
		} `yaml:"services"`
		Common map[string]any `yaml:"x-common"`
	}
	b, err := os.ReadFile("../../deploy/compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(b, &compose); err != nil {
		t.Fatal(err)
	}
	for name, s := range compose.Services {
		p := "lazaret"
		if len(s.Entrypoint) > 0 {
			p = filepath.Base(s.Entrypoint[0])
		} else if len(s.Command) > 1 && help["lazaret "+s.Command[0]+" "+s.Command[1]] != "" {
			p = "lazaret " + s.Command[0] + " " + s.Command[1]
		}
		if help[p] == "" || len(s.Command) == 0 {
			t.Errorf("compose: %s runs %q %q", name, s.Entrypoint, s.Command)
		}
		known("compose, "+name, []string{p}, strings.Join(s.Command, " "))
	}
	for _, d := range []string{"ingest", "sentinels", "arbiter", "auditor"} {
		c := stageOfKubernetes(t, d)
		if c.Command[0] != "/usr/local/bin/"+d {
			t.Errorf("kubernetes: %s runs %q", d, c.Command)
		}
		known("kubernetes, "+d, []string{d}, strings.Join(c.Args, " "))
	}
	for file, programs := range map[string][]string{"lazaret.service": {"lazaret"},
		"lazaret-trim.service": {"lazaret audit trim"}, "lazaret-auditor-trim.service": {"lazaret audit trim"},
		"lazaret@.service": {"ingest", "sentinels", "arbiter", "auditor"}} {
		b, err := os.ReadFile("../../deploy/systemd/" + file)
		if err != nil {
			t.Fatal(err)
		}
		// A unit with Restart=always needs StartLimitIntervalSec=0, because systemd otherwise gives up after five quick
		// failures. The units that trim wait a minute before a restart, so they do not need it.
		if s := string(b); strings.Contains(s, "Restart=always") && !strings.Contains(s, "RestartSec=60s") &&
			!strings.Contains(s, "\nStartLimitIntervalSec=0\n") {
			t.Errorf("%s: systemd limits its starts", file)
		}
		line := regexp.MustCompile(`(?m)^ExecStart=.*$`).FindString(string(b))
		if line == "" {
			t.Errorf("%s starts nothing", file)
		}
		known(file, programs, line)
	}
}

// container is the part of a Kubernetes file that says how a pod runs its program.
type container struct {
	Command []string `yaml:"command"`
	Args    []string `yaml:"args"`
	Items   []string // paths of the secret's files in /lz
}

// stageOfKubernetes reads the first document of a file of the kustomize base.
func stageOfKubernetes(t *testing.T, stage string) container {
	t.Helper()
	b, err := os.ReadFile("../../deploy/kubernetes/base/" + stage + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	type pod struct {
		Spec struct {
			Containers []container `yaml:"containers"`
			Volumes    []struct {
				Secret struct {
					Items []struct {
						Path string `yaml:"path"`
					} `yaml:"items"`
				} `yaml:"secret"`
			} `yaml:"volumes"`
		} `yaml:"spec"`
	}
	var o struct {
		Spec struct {
			Template    pod `yaml:"template"`
			JobTemplate struct {
				Spec struct {
					Template pod `yaml:"template"`
				} `yaml:"spec"`
			} `yaml:"jobTemplate"`
		} `yaml:"spec"`
	}
	doc, _, _ := strings.Cut(string(b), "\n---\n")
	if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
		t.Fatalf("%s: %v", stage, err)
	}
	p := o.Spec.Template.Spec
	if len(p.Containers) == 0 {
		p = o.Spec.JobTemplate.Spec.Template.Spec
	}
	if len(p.Containers) != 1 {
		t.Fatalf("%s runs %d containers", stage, len(p.Containers))
	}
	c := p.Containers[0]
	for _, v := range p.Volumes {
		for _, i := range v.Secret.Items {
			c.Items = append(c.Items, i.Path)
		}
	}
	return c
}
