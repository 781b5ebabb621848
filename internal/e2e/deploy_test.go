package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// The files in deploy/ are YAML where they say so, and every program and flag
// that they name exists.
func TestTheFilesForDeploymentNameFlagsThatExist(t *testing.T) {
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
		}
		if help[p] == "" || len(s.Command) == 0 {
			t.Errorf("compose: %s runs %q %q", name, s.Entrypoint, s.Command)
		}
		known("compose, "+name, []string{p}, strings.Join(s.Command, " "))
	}
	if b, err = os.ReadFile("../../deploy/kubernetes/lazaret.yaml"); err != nil {
		t.Fatal(err)
	}
	var stages []string
	for i, doc := range strings.Split(string(b), "\n---\n") {
		var o struct {
			Kind string `yaml:"kind"`
			Spec struct {
				Replicas int `yaml:"replicas"`
				Template struct {
					Spec struct {
						Containers []struct {
							Name    string   `yaml:"name"`
							Command []string `yaml:"command"`
							Args    []string `yaml:"args"`
						} `yaml:"containers"`
					} `yaml:"spec"`
				} `yaml:"template"`
			} `yaml:"spec"`
		}
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatalf("document %d: %v", i, err)
		}
		if o.Kind != "StatefulSet" {
			continue
		}
		for _, c := range o.Spec.Template.Spec.Containers {
			stages = append(stages, c.Name)
			if c.Command[0] != "/usr/local/bin/"+c.Name || o.Spec.Replicas != 2 {
				t.Errorf("kubernetes: %+v", c)
			}
			known("kubernetes, "+c.Name, []string{c.Name}, strings.Join(c.Args, " "))
		}
	}
	if slices.Sort(stages); !slices.Equal(stages, []string{"arbiter", "auditor", "ingest", "sentinels"}) {
		t.Errorf("kubernetes runs %v", stages)
	}
	for file, programs := range map[string][]string{"lazaret.service": {"lazaret"}, "lazaret-trim.service": {"lazaret audit trim"}, "lazaret@.service": {"ingest", "sentinels", "arbiter", "auditor"}} {
		b, err := os.ReadFile("../../deploy/systemd/" + file)
		if err != nil {
			t.Fatal(err)
		}
		line := regexp.MustCompile(`(?m)^ExecStart=.*$`).FindString(string(b))
		if line == "" {
			t.Errorf("%s starts nothing", file)
		}
		known(file, programs, line)
	}
}
