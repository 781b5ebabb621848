package e2e

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lazaret/internal/natstest"
)

// notRun has the blocks that no test runs, with the reason. The key is the page and the beginning of the block's first
// command.
var notRun = map[string]string{
	"docs/tour.md: export XDG_CONFIG_HOME":      natsCLI,
	"docs/protocol.md: nats --context":          natsCLI,
	"docs/tour.md: lazaret server init":         "top, chaos and bench take minutes or do not end",
	"docs/console.md: lazaret console --server": "it needs a server with TLS and a certificate",
	"docs/console.md: lazaret prompts register": "it needs a pinned approver; TestPromptsFromTheCommandLine runs it",
	"docs/audit.md: lazaret state restore":      "it is for a stage that lost its disk",
	"docs/forgetting.md: lazaret audit forget --data lz --dir": "it is for an auditor that runs apart, see " +
		"TestAPersonIsForgottenWhereTheAuditorRunsApart",
	"docs/evidence.md: go run ./examples/ver":     "it shortens keys; TestPromiseB16… runs the verifier",
	"docs/log.md: lazaret key gen witness":        witnessed,
	"docs/log.md: lazaret audit witness add":      witnessed,
	"docs/log.md: lazaret audit rotate":           "the auditor has to be stopped",
	"docs/log.md: systemctl stop":                 "TestTheKeyOfAnAuditorThatRunsApartIsReplaced has such an auditor",
	"docs/log.md: NAME=$(sed":                     "it is for a cluster; TestAKeyThatWasMadeBeforeIsHandedOverOnce has such a key",
	"docs/log.md: auditor --dir":                  "it needs another machine",
	"docs/operations.md: lazaret up --metrics":    "TestDaemonsServeMetricsAndHealth starts both",
	"docs/operations.md: lazaret bench pipe":      "a benchmark needs a quiet machine and minutes",
	"docs/otel.md: export OTEL_EXPORTER":          "TestSpansAreRecordedOnceAndTheRestIsCounted sends spans",
	"docs/probes.md: lazaret probe run --ev":      "a round takes minutes; TestAProbeThatFailsOpensAnIncident runs one",
	"docs/rules.md: lazaret rules repl":           "it is interactive; TestTheReplReadsExpressionsAndCommands tries it",
	"docs/sentinels.md: lazaret sentinel add":     judgeJS,
	"docs/stores.md: lazaret memory proxy":        "it needs a store; TestMem0IsAskedBeforeWritesAndAfterSearches has one",
	"docs/sentinels.md: lazaret conformance":      judgeJS,
	"docs/mcp.md: cat notes/meeting.txt":          mcpServer,
	"docs/mcp.md: lazaret holds approve hcbb6892": mcpServer,
	"docs/mcp.md: cat servers.json":               mcpServer,
	"docs/notifications.md: lazaret up --notify":  "it needs receivers of messages",
	"docs/notifications.md: lazaret notify init":  "it needs receivers of messages",
	"docs/mcp.md: lazaret alerts ls":              mcpServer,
}

const (
	natsCLI   = "it needs the nats program"
	witnessed = "it needs another machine; TestWitnessesCosignWhatTheAuditorSigns has a witness"
	judgeJS   = "it needs npm; TestASentinelGroupInAnotherLanguageKeepsTheProtocol runs it"
	mcpServer = "it needs servers from npm; TestToolsAreCalledOnceAPersonAcceptedThem plays the story"
)

// ownPipeline are the pages that get a pipeline of their own, because their commands would disturb the other pages.
var ownPipeline = []string{"docs/rules.md", "docs/forgetting.md", "docs/audit.md",
	"docs/operations.md", "docs/policy.md", "docs/hooks.md"}

// The test runs the commands in the order in which a newcomer reads: the README in a fresh clone, then the tour, then
// the other pages.
func TestTheCommandsOfTheREADMEAndTheDocsWork(t *testing.T) {
	long(t)
	t.Parallel()
	clone := freshClone(t)
	home := t.TempDir()
	curl := []byte("silent\nshow-error\nfail-with-body\n")
	if err := os.WriteFile(filepath.Join(home, ".curlrc"), curl, 0o644); err != nil {
		t.Fatal(err)
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return slices.ContainsFunc([]string{"HOME=", "PATH=", "NATS_", "LAZARET_", "XDG_"},
			func(p string) bool { return strings.HasPrefix(v, p) })
	})
	cache, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	caches := strings.Fields(string(cache))
	env = append(env, "HOME="+home, "GOCACHE="+caches[0], "GOMODCACHE="+caches[1],
		"PATH="+filepath.Join(clone, "bin")+":"+os.Getenv("PATH"))

	// The programs are not compiled again, because that takes a minute of processor time in another folder. With
	// GO=true, make build does only its other steps. TestAStrangerGoesFromMakeRun… runs make build completely.
	env = append(env, "GO=true")
	if err := os.Mkdir(filepath.Join(clone, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"lazaret", "lazaret-hook"} {
		if err := os.Symlink(filepath.Join(bin, name), filepath.Join(clone, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	built := exec.Command("make", "build")
	built.Dir, built.Env = clone, env
	if out, err := built.CombinedOutput(); err != nil {
		t.Fatalf("make build: %v\n%s", err, out)
	}
	pages, err := filepath.Glob(filepath.Join(clone, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	order := []string{"README.md", "docs/tour.md"}
	for _, p := range pages {
		// docs/cli.md is left out: a test of cmd/lazaret checks its examples.
		if name := "docs/" + filepath.Base(p); name != "docs/cli.md" && !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	unrun := make(map[string]bool)
	only := os.Getenv("LAZARET_PAGE")
	parent, ports := t, strings.NewReplacer()
	for _, page := range order {
		t.Run(page, func(t *testing.T) {
			blocks := readBlocks(t, clone, page)
			if only != "" && only != page && page != "README.md" {
				return
			}
			dir, mine := clone, ports
			if slices.Contains(ownPipeline, page) {
				dir = linked(t, clone)
				mine = pipelineOfAPage(t, dir, env, "bin/lazaret", "up", "--data", "data", "--listen", "127.0.0.1:0")
				// The output on the pages shows an empty intake. It may take two seconds after the first commands until
				// ingest empties it.
				natstest.Eventually(t, time.Minute, "an empty intake", func() bool {
					top := exec.Command(filepath.Join(dir, "bin/lazaret"), "top", "--once", "--interval", "0")
					top.Dir, top.Env = dir, env
					out, _ := top.Output()
					return bytes.Contains(out, []byte(" 0 wait"))
				})
			}
			s := newShell(t, dir, env, mine)
			for _, b := range blocks {
				if b.info == "sh background" && b.lines[0] == "make run" {
					run := pipelineOfAPage(parent, dir, env, "make", "run", "LISTEN=127.0.0.1:0")
					ports, s.ports = run, run
					continue
				}
				s.check(b, unrun)
			}
		})
	}
	for _, first := range slices.Sorted(maps.Keys(notRun)) {
		if !unrun[first] && only == "" {
			t.Errorf("notRun names %q, which no page has", first)
		}
	}
}
