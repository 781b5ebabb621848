package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lazaret/pkg/policy"
)

func TestUpRefusesAGroupThatTheRulesDoNotHave(t *testing.T) {
	long(t)
	t.Parallel()
	out, code := command(t, t.TempDir(), "up", "--listen", "127.0.0.1:0", "--groups", "core,nosuch")
	if code != 1 || !strings.Contains(out, `--groups names "nosuch", but the rules in force have only the groups core`) {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

func putFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// putMine writes a rule pack to dir. The pack has one rule, mine-only.
func putMine(t *testing.T, dir string) {
	t.Helper()
	putFile(t, filepath.Join(dir, "mine/pack.yaml"), "name: mine\ntitle: Mine\n")
	putFile(t, filepath.Join(dir, "mine/rules.yaml"), "rules:\n  - id: mine-only\n    title: Mine\n    severity: low\n"+
		"    on: [action]\n    when: action.tool == 'x'\n    message: \"'x'\"\n    effect: hold\n    subject: action\n"+
		"    on_error: hold\n")
}

func TestActivateShowsTheDifferenceAndKeepsWhatThePolicyRequires(t *testing.T) {
	long(t)
	t.Parallel()
	data := t.TempDir()
	up := start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", "127.0.0.1:0")
	defer up.interrupt()
	dir := t.TempDir()
	put := func(name, text string) { putFile(t, filepath.Join(dir, name), text) }
	refused := func(why string) {
		t.Helper()
		if out, code := command(t, data, "rules", "activate", dir); code != 2 || !strings.Contains(out, why) {
			t.Errorf("exit %d, want 2 and %q:\n%s", code, why, out)
		}
	}
	putMine(t, dir)
	test := func(fires string) {
		put("mine/mine.test.yaml", "tests:\n  - name: x is held\n    given: [{action: {tool: x}}]\n    fires: {mine-only: "+
			fires+"}\n"+
			"  - name: y is not\n    given: [{action: {tool: y}}]\n    silent: [mine-only]\n")
	}
	test("1")

	put("groups.yaml", "groups:\n  core: [mine]\n")
	refused("rules would go out of force")
	put("groups.yaml", "groups:\n  ours: [mine]\n")
	refused("requires the groups core")
	put("groups.yaml", "extends: shipped\ngroups:\n  core: [mine]\n")
	test("2")
	refused("not activated; the set in force stays")
	if out := must(t, data, "rules", "ls"); strings.Contains(out, "mine-only") || !strings.Contains(out, "protected-key") {
		t.Errorf("in force after the refusals:\n%s", out)
	}

	test("1")
	if out := must(t, data, "rules", "activate", dir); !strings.Contains(out, "added: 1 (mine/mine-only)") ||
		strings.Contains(out, "out of force") {
		t.Errorf("activation says\n%s", out)
	}
	if out := must(t, data, "rules", "ls"); !strings.Contains(out, "mine-only") ||
		!strings.Contains(out, "protected-key") {
		t.Errorf("in force:\n%s", out)
	}
	put("groups.yaml", "groups:\n  core: [mine]\n")
	out := must(t, data, "rules", "activate", dir, "--yes")
	if !strings.Contains(out, "in force: sha256:") || !strings.Contains(out, "out of force: ") {
		t.Errorf("activation with --yes says\n%s", out)
	}
	put("groups.yaml", "groups:\n  ours: [mine]\n")
	if out, code := command(t, data, "rules", "activate", dir, "--yes"); code != 2 ||
		!strings.Contains(out, "requires the groups core") {
		t.Errorf("a set without a required group, with --yes: exit %d:\n%s", code, out)
	}
}

// A policy and a rule set are activated while 40,000 observations wait in the intake. The commands must report that
// they are in force.
func TestActivationsWhileObservationsWaitSucceed(t *testing.T) {
	long(t)
	t.Parallel()
	data, addr := t.TempDir(), freePort(t)
	start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", addr, "--no-sync").interrupt()
	srv := start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", addr, "--no-sync", "--server-only")
	dir := t.TempDir()
	putMine(t, dir)
	putFile(t, filepath.Join(dir, "groups.yaml"), "extends: shipped\ngroups:\n  core: [mine]\n")
	ours := filepath.Join(dir, "policy.yaml")
	putFile(t, ours, "# ours\n"+string(policy.Default))

	// While ingest is stopped, the command waits and says how many partitions are done.
	in := start(t, "ready", "ingest", "--data", data)
	in.signal(syscall.SIGSTOP)
	act := start(t, "in force in 0 of 16 partitions", "lazaret", "policy", "activate", ours, "--data", data)
	in.signal(syscall.SIGCONT)
	<-act.done
	if code := act.cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(act.output(), "in force: sha256:") {
		t.Errorf("exit %d:\n%s", code, act.output())
	}
	in.interrupt()

	// 40,000 observations wait when the pipeline starts, and another 40,000 come while it runs.
	must(t, data, "agent", "add", "acme", "bot", "--origins", "web")
	load := func(agent, creds string) {
		t.Helper()
		must(t, data, "bench", "load", "--server", "nats://"+addr, "--events", "40000", "--size", "256", "--batch", "64",
			"--subjects", "lz.in."+agent+".obs.web", "--as", filepath.Join(data, "creds", creds))
	}
	load("demo.agent", "agent.creds")
	srv.interrupt()
	start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", addr, "--no-sync")
	load("acme.bot", "acme.bot.creds")
	putFile(t, ours, "# ours, again\n"+string(policy.Default))
	for _, activate := range [][]string{{"policy", "activate", ours}, {"rules", "activate", dir}} {
		began := time.Now()
		if out := must(t, data, activate...); !strings.Contains(out, "in force: sha256:") {
			t.Errorf("%v:\n%s", activate, out)
		}
		_, waiting, _ := strings.Cut(must(t, data, "doctor"), "intake ")
		t.Logf("%s took %s; then wait%.40s", strings.Join(activate[:2], " "), time.Since(began), waiting)
	}
}
