package e2e

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goccy/go-yaml"

	"lazaret/internal/part"
)

// place describes how a deployment runs one program: its arguments, its user, and its folders. Each folder of the
// deployment is mapped to a folder of the test.
type place struct {
	name    string
	program string
	args    []string
	folders map[string]string // path in the deployment → path here
}

// shown returns the arguments with the test's folders in the place of the deployment's. It replaces longer paths first.
func (p *place) shown() []string {
	names := make([]string, 0, len(p.folders))
	for n := range p.folders {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	out := slices.Clone(p.args)
	for i, a := range out {
		for _, n := range names {
			if strings.HasPrefix(a, n) || strings.HasPrefix(a, "--dir="+n) {
				out[i] = strings.Replace(a, n, p.folders[n], 1)
				break
			}
		}
		if strings.HasPrefix(a, "0.0.0.0:") || strings.HasPrefix(a, "127.0.0.1:") {
			out[i] = "127.0.0.1:0"
		}
	}
	return out
}

// as makes a command run as an unprivileged user. It only does so if the test runs as root.
func as(user uint32, c *exec.Cmd) {
	c.Env = []string{"HOME=/nonexistent", "PATH=/usr/bin:/bin"}
	if os.Getuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	}
}

// give makes a user the owner of a folder. The folder is read-only unless write is set.
func give(t *testing.T, dir string, user uint32, write bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o400)
		if d.IsDir() {
			mode = 0o500
		}
		if write {
			mode |= 0o200
			if d.IsDir() {
				mode = 0o700
			}
		}
		if os.Getuid() == 0 {
			if err := os.Chown(path, int(user), int(user)); err != nil {
				return err
			}
		}
		return os.Chmod(path, mode)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The daemons run as configured in deploy/. Each has a user, a read-only part of the data folder, and a folder for its
// state. The users of other daemons must not be able to read the part.
func TestTheDaemonsRunWithTheUsersAndFoldersOfTheDeployment(t *testing.T) {
	long(t)
	root := t.TempDir()
	for d := root; d != filepath.Clean(os.TempDir()) && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Log(err)
		}
	}
	if err := os.Chmod(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	data, addr := filepath.Join(root, "data"), freePort(t)
	start(t, "lazaret is up", "lazaret", "up", "--server-only", "--data", data, "--listen", addr)
	n := uint32(64000)
	folder := func(name string) string {
		dir := filepath.Join(root, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for _, kind := range []string{"systemd", "compose", "kubernetes"} {
		parts := folder(kind + "/parts")
		if err := os.Chmod(filepath.Dir(parts), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(parts, 0o755); err != nil {
			t.Fatal(err)
		}
		must(t, data, "server", "part", "--to", parts)
		var running []*process
		for _, stage := range part.Names {
			dir, state := filepath.Join(parts, stage), folder(kind+"/state-"+stage)
			if stage == "trim" {
				state = filepath.Join(root, kind, "state-auditor") // the auditor's folder and user
			} else {
				n++
			}
			give(t, dir, n, false)
			give(t, state, n, true)
			p := placeOf(t, kind, stage, dir, state)
			if stage == "trim" {
				// All entries are too young to be trimmed. So the command reads the log, asks the auditor and reports
				// that there is nothing to trim.
				args := slices.DeleteFunc(p.shown(), func(a string) bool { return a == "--every" || a == "24h" })
				trim := exec.Command(filepath.Join(bin, p.program), args...)
				as(n, trim)
				if out, err := trim.CombinedOutput(); err != nil || !strings.Contains(string(out), "nothing to trim") {
					t.Errorf("%s: trim: %v: %s", kind, err, out)
				}
				continue
			}
			running = append(running, startWith(t, func(c *exec.Cmd) { as(n, c) }, "ready", p.program, p.shown()...))
			if os.Getuid() == 0 {
				cat := exec.Command("cat", filepath.Join(dir, "trust.yaml"))
				as(n+100, cat)
				if cat.Run() == nil {
					t.Errorf("%s: another user reads the part of %s", kind, stage)
				}
			}
		}
		for _, p := range running {
			p.interrupt()
		}
	}
}

// placeOf reads from the files of a deployment how it runs a daemon or the job that trims the ledger.
func placeOf(t *testing.T, kind, stage, dir, state string) *place {
	t.Helper()
	p := &place{name: stage, program: stage, folders: map[string]string{"/lz": dir, "/state": state}}
	if stage == "trim" {
		p.program = "lazaret"
	}
	switch kind {
	case "systemd":
		unit, log := "lazaret@.service", ""
		p.folders = map[string]string{"/etc/lazaret/" + stage: dir, "/var/lib/lazaret-" + stage: state}
		switch stage {
		case "trim":
			unit = "lazaret-auditor-trim.service"
			p.folders["/var/lib/lazaret-auditor"] = state
		case "auditor":
			b, err := os.ReadFile("../../deploy/systemd/lazaret@auditor.service.d/log.conf")
			if err != nil {
				t.Fatal(err)
			}
			log = regexp.MustCompile(`(?m)^Environment=LAZARET_LOG=(.*)$`).FindStringSubmatch(string(b))[1]
		}
		b, err := os.ReadFile("../../deploy/systemd/" + unit)
		if err != nil {
			t.Fatal(err)
		}
		line := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(string(b))[1]
		line = strings.NewReplacer("%i", stage, "$LAZARET_LOG", log, "$LAZARET_FLAGS", "").Replace(line)
		words := strings.Fields(line)
		if words[0] != "/usr/local/bin/"+p.program {
			t.Fatalf("%s runs %s", unit, words[0])
		}
		p.args = words[1:]
	case "compose":
		b, err := os.ReadFile("../../deploy/compose/compose.yaml")
		if err != nil {
			t.Fatal(err)
		}
		var c struct {
			Services map[string]struct {
				Command []string `yaml:"command"`
				Volumes []string `yaml:"volumes"`
			} `yaml:"services"`
		}
		if err := yaml.Unmarshal(b, &c); err != nil {
			t.Fatal(err)
		}
		s := c.Services[stage]
		if !slices.Contains(s.Volumes, "lz-"+stage+":/lz:ro") {
			t.Errorf("compose: %s mounts %v", stage, s.Volumes)
		}
		p.args = s.Command
	case "kubernetes":
		c := stageOfKubernetes(t, stage)
		files, err := part.Files(stage, []string{"core"})
		if err != nil {
			t.Fatal(err)
		}
		// The secret has a key for each of two auditors. Compare only the files for the first one.
		c.Items = slices.DeleteFunc(c.Items, func(f string) bool { return strings.HasPrefix(f, "own/auditor-1/") })
		for i, f := range c.Items {
			c.Items[i] = strings.TrimPrefix(f, "own/auditor-0/")
		}
		if slices.Sort(c.Items); !slices.Equal(c.Items, files) {
			t.Errorf("kubernetes: %s mounts %v and needs %v", stage, c.Items, files)
		}
		p.args = c.Args
	}
	return p
}

// systemd-analyze must accept the units on a machine that has the programs.
func TestSystemdAcceptsTheUnits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var units []string
	for _, from := range []string{"lazaret.service", "lazaret-trim.service", "lazaret-trim.timer",
		"lazaret-auditor-trim.service", "lazaret@.service"} {
		to := strings.Replace(from, "@.", "@ingest.", 1)
		b, err := os.ReadFile("../../deploy/systemd/" + from)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(b), "/usr/local/bin/", bin+"/")
		// lazaret@.service is written as the file of one instance, ingest. Such a file has the name in the place of %i.
		if to != from {
			text = strings.ReplaceAll(text, "%i", "ingest")
		}
		to = filepath.Join(dir, to)
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		units = append(units, to)
	}
	slices.Sort(units)
	cmd := exec.Command("systemd-analyze", append([]string{"verify", "--man=no"}, units...)...)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), dir) {
		t.Errorf("%v: %s", err, out)
	}
}
