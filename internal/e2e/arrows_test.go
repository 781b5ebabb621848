package e2e

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestTheHookStaysSmall checks that lazaret-hook links no packages that make its start slow. A host starts this program
// for each tool call.
func TestTheHookStaysSmall(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", "lazaret/cmd/lazaret-hook").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.Lines(string(out)) {
		for _, heavy := range []string{"nats-server", "cel.dev/", "pebble", "prometheus", "expr-lang", "opentelemetry",
			"grpc", "protobuf", "lazaret/pkg/rules", "lazaret/pkg/policy", "lazaret/internal/embedded"} {
			if strings.Contains(dep, heavy) {
				t.Errorf("it links %s", dep)
			}
		}
	}
}

// TestTheDomainLinksNoNATS fails if streams, rules or a package below pkg depends on nats.go, directly
// or indirectly.
func TestTheDomainLinksNoNATS(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}: {{join .Deps " "}}`,
		"lazaret/pkg/...", "lazaret/streams", "lazaret/rules").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := 0
	for line := range strings.Lines(string(out)) {
		packages++
		pkg, deps, _ := strings.Cut(line, ": ")
		for _, dep := range strings.Fields(deps) {
			if strings.HasPrefix(dep, "github.com/nats-io/") {
				t.Errorf("%s depends on %s", pkg, dep)
			}
		}
	}
	if packages < 20 {
		t.Errorf("only %d packages were checked", packages)
	}
}

// TestArrowsPointOneWay checks the rules for imports in docs/architecture.md. One of them: domain packages import
// neither NATS nor stages nor commands.
func TestArrowsPointOneWay(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}: {{join .Imports " "}}`, "lazaret/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	forbidden := map[string][]string{
		"lazaret/pkg/text":    {"lazaret/", "github.com/nats-io/"},
		"lazaret/pkg/beliefs": {"lazaret/", "github.com/nats-io/"},
		"lazaret/pkg/chain":   {"lazaret/", "github.com/nats-io/"},
		"lazaret/pkg/": {"lazaret/internal/", "lazaret/cmd/", "lazaret/client", "github.com/nats-io/",
			"github.com/prometheus/"},
		"lazaret/internal/metrics": {"lazaret/internal/ingest", "lazaret/internal/sentinel", "lazaret/internal/arbiter",
			"lazaret/internal/auditor", "lazaret/internal/embedded"},
		"lazaret/internal/wire": {"lazaret/internal/", "lazaret/pkg/", "lazaret/cmd/", "lazaret/client"},
		"lazaret/streams": {"lazaret/internal/", "lazaret/cmd/", "lazaret/client", "lazaret/pkg/rules",
			"lazaret/pkg/policy", "lazaret/pkg/chain"},
		"lazaret/internal/stage": {"lazaret/internal/", "lazaret/pkg/", "lazaret/cmd/"},
		"lazaret/internal/ingest": {"lazaret/internal/sentinel", "lazaret/internal/arbiter", "lazaret/internal/auditor",
			"lazaret/internal/embedded"},
		"lazaret/internal/sentinel": {"lazaret/internal/ingest", "lazaret/internal/arbiter", "lazaret/internal/auditor",
			"lazaret/internal/embedded"},
		"lazaret/internal/arbiter": {"lazaret/internal/ingest", "lazaret/internal/sentinel", "lazaret/internal/auditor",
			"lazaret/internal/embedded"},
		"lazaret/internal/auditor": {"lazaret/internal/ingest", "lazaret/internal/sentinel", "lazaret/internal/arbiter",
			"lazaret/internal/embedded"},
		"lazaret/internal/datafolder": {"lazaret/internal/stage", "lazaret/internal/ingest", "lazaret/internal/sentinel",
			"lazaret/internal/arbiter", "lazaret/internal/auditor", "lazaret/internal/embedded"},
		"lazaret/internal/backup": {"lazaret/internal/ingest", "lazaret/internal/sentinel", "lazaret/internal/arbiter",
			"lazaret/internal/auditor", "lazaret/internal/embedded"},
		"lazaret/internal/part": {"lazaret/internal/stage", "lazaret/internal/ingest", "lazaret/internal/sentinel",
			"lazaret/internal/arbiter", "lazaret/internal/auditor", "lazaret/internal/embedded"},
	}
	checked := 0
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		pkg, imports, _ := strings.Cut(line, ": ")
		for prefix, bad := range forbidden {
			if pkg != prefix && !(strings.HasSuffix(prefix, "/") && strings.HasPrefix(pkg, prefix)) {
				continue
			}
			checked++
			for _, imp := range strings.Fields(imports) {
				for _, b := range bad {
					// These packages import no stage.
					if slices.Contains([]string{"lazaret/internal/wire", "lazaret/pkg/files", "lazaret/pkg/files/pebblefs",
						"lazaret/pkg/position", "lazaret/pkg/text/command", "lazaret/internal/statement"}, imp) {
						continue
					}
					if strings.HasPrefix(imp, b) {
						t.Errorf("%s imports %s", pkg, imp)
					}
				}
			}
		}
	}
	if checked < len(forbidden) {
		t.Errorf("only %d packages were checked", checked)
	}
}

// TestEveryPackageHasADocFile checks that the package comment is in doc.go, where a reader looks for it.
func TestEveryPackageHasADocFile(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}: {{join .GoFiles " "}}: {{.Doc}}`, "lazaret/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := 0
	for line := range strings.Lines(string(out)) {
		packages++
		pkg, rest, _ := strings.Cut(line, ": ")
		files, doc, _ := strings.Cut(rest, ":")
		if !slices.Contains(strings.Fields(files), "doc.go") {
			t.Errorf("%s has no doc.go: say there what it is for, what it may import and where to begin reading", pkg)
		} else if strings.TrimSpace(doc) == "" {
			t.Errorf("the doc.go of %s has no package comment", pkg)
		}
	}
	if packages < 100 {
		t.Errorf("only %d packages were checked", packages)
	}
}
