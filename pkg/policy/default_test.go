package policy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func shipped(t testing.TB) *Policy {
	t.Helper()
	p, err := Compile(DefaultName, Default)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func show(c Class) string {
	return fmt.Sprintf("%s %s by %q effects=%v blast=%s reversibility=%s", c.Floor, c.Level, c.Entry, c.Effects, c.Blast,
		c.Reversibility)
}

func TestTheShippedPolicyOnCommonNames(t *testing.T) {
	p := shipped(t)
	datadriven.RunTest(t, "testdata/default", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		for tool := range strings.Lines(d.Input) {
			tool = strings.TrimSuffix(tool, "\n")
			c := p.Classify(tool, nil, "p", "a")
			fmt.Fprintf(&out, "%-28s %s %-5s %-22s %s\n", tool, c.Level, c.Floor, c.Entry, strings.Join(c.Effects, ","))
		}
		return out.String()
	})
}

// changing are verbs that change something. The list is independent of the policy.
var changing = strings.Fields(`add append approve assign book buy cancel change clear create delete deploy deposit
	destroy drop edit erase execute export forward grant insert install invite kill merge modify move notify order
	overwrite pay post publish purchase purge push put refund register remove rename replace reply reserve reset
	restart revoke run save schedule sell send set share shutdown store submit subscribe transfer transmit truncate
	uninstall unlock update upload upsert wipe withdraw write`)

// irrevocable are those verbs whose actions a person must approve.
var irrevocable = strings.Fields(
	`approve book buy cancel delete deploy deposit destroy erase execute export forward grant
	kill merge notify order overwrite pay post publish purchase purge push refund remove reply reserve revoke run sell
	send share shutdown submit subscribe transfer transmit truncate uninstall unlock upload wipe withdraw`)

func TestNoSpellingOfAChangingVerbIsBelowL3(t *testing.T) {
	p := shipped(t)
	title := func(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
	for _, verb := range changing {
		for _, name := range []string{
			verb, strings.ToUpper(verb), verb + "_thing", verb + "-thing", verb + ".thing", verb + "Thing",
			title(verb) + "Thing",
			"acme__" + verb + "_thing", "acme.things." + verb, "acme/" + verb + "Thing", verb + "2",
			verb + "_and_get_thing", verb + "_or_list", title(verb) + "ThenRead", "get_or_" + verb, "readAnd" + title(verb),
			"HTTP" + title(verb) + "Thing",
		} {
			c := p.Classify(name, nil, "p", "a")
			if c.Level < beliefs.L3 {
				t.Errorf("%s: %s", name, show(c))
			}
			if slices.Contains(irrevocable, verb) && c.Floor < streams.Hold {
				t.Errorf("%s is not held: %s", name, show(c))
			}
		}
	}
}

func TestEveryEntryOfTheShippedPolicyHasEffectsAndReach(t *testing.T) {
	p := shipped(t)
	if p.Learn() || p.OnSilent < streams.Hold || len(p.Groups) == 0 || p.otherwise == nil {
		t.Errorf("the shipped policy does not protect: %+v", p)
	}
	for _, e := range append(slices.Clone(p.entries), *p.otherwise) {
		if e.blast == 0 || e.reversibility == 0 || e.effects == 0 && e.level > beliefs.L0 {
			t.Errorf("entry %s leaves something open", e.name)
		}
		if e.level >= beliefs.L4 && e.reversibility == beliefs.Reversible {
			t.Errorf("entry %s is held for something reversible", e.name)
		}
	}
}

// TestToolsOfRealSessions classifies, with the shipped policy, the tools that agents called in
// third-party sessions. The sessions are stored next to the repository.
func TestToolsOfRealSessions(t *testing.T) {
	const corpora = "../../../shared/corpora"
	files, err := filepath.Glob(filepath.Join(corpora, "sessions_*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("SKIPPED: no sessions_*.jsonl in %s; the shipped policy was not tried on real tool names", corpora)
	}
	calls := make(map[string]int)
	for _, file := range files {
		if err := countTools(file, calls); err != nil {
			t.Fatal(err)
		}
	}
	p := shipped(t)
	levels := make(map[beliefs.Level]int)
	unknown, unknownCalls, total := 0, 0, 0
	for _, tool := range slices.Sorted(maps.Keys(calls)) {
		c := p.Classify(tool, nil, "p", "a")
		levels[c.Level]++
		total += calls[tool]
		if c.Entry == Otherwise {
			unknown++
			unknownCalls += calls[tool]
		}
		if c.Level < beliefs.L3 && changes(tool) {
			t.Errorf("%s changes something and is at %s by %s", tool, c.Level, c.Entry)
		}
	}
	t.Logf("%d tools in %d calls; only otherwise matched %d tools (%.0f %%), %d calls (%.0f %%); tools by level %v",
		len(calls), total, unknown, 100*float64(unknown)/float64(len(calls)), unknownCalls,
		100*float64(unknownCalls)/float64(total), levels)
	if unknown*2 > len(calls) || unknownCalls*4 > total {
		t.Error("the shipped policy knows too few of the verbs in use")
	}
}

var wordsOf = regexp.MustCompile(`[A-Z]+[a-z]*|[a-z]+`)

// changes reports whether a name begins with a changing verb, or contains one without a reading
// word before it.
func changes(tool string) bool {
	for _, w := range wordsOf.FindAllString(tool, -1) {
		w = strings.ToLower(w)
		if governs[w] {
			return false
		}
		if slices.Contains(changing, w) {
			return true
		}
	}
	return false
}

func countTools(file string, into map[string]int) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var session struct{ Steps []struct{ Kind, Tool string } }
		if err := json.Unmarshal(lines.Bytes(), &session); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, s := range session.Steps {
			if s.Kind == "action" {
				into[s.Tool]++
			}
		}
	}
	return lines.Err()
}
