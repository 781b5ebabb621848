package fit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lazaret/pkg/files"
)

// Text is one labeled text.
type Text struct {
	Dataset string
	Attack  bool
	Counts  bool // used in the validation
	Content string

	injected string // the attacker's part, if known
	group    int
}

// GroupCount is the number of groups of data sets. The validation leaves out one whole group at a time. Texts that are
// related must not be in different groups. Each group has attacks and harmless texts of different origin.
const (
	GroupCount  = 6
	always      = GroupCount + iota // fitted in every fold
	neverFitted                     // not used for fitting: texts of users, which the rules never score
	nobody                          // no text has this group: fitting without it leaves out nothing
)

var groups = map[string]int{
	"ASB": 0, "tau-bench": 0, "tau-trait": 0,
	"BIPIA": 1, "ToolBench": 1,
	"garak latentinjection": 2, "SWE-agent": 2,
	"InjecAgent": 3,
	"AgentDojo":  4,
	smallSets:    5, "tau2-bench banking_knowledge": 5,
	"NotInject": neverFitted, "MemoryBank": neverFitted, "awesome-cursorrules": neverFitted,
	drawnSet: always,
}

// GroupOf returns the group of a data set. A data set that is not listed belongs to the group of the small sets. A
// group of GroupCount or above means that the data set is never left out as a part of a group.
func GroupOf(dataset string) int {
	if g, ok := groups[dataset]; ok {
		return g
	}
	return groups[smallSets]
}

const (
	smallSets = "small sets"
	drawnSet  = "drawn"
)

// Load reads files of labeled lines and of sessions, or all *.jsonl files of a folder. It also
// generates lines from the grammars.
func Load(paths []string) ([]Text, error) {
	var names []string
	for _, p := range paths {
		if fi, err := os.Stat(p); err == nil && fi.IsDir() {
			in, err := files.Glob(p, "*.jsonl")
			if err != nil {
				return nil, err
			}
			names = append(names, in...)
			continue
		}
		names = append(names, p)
	}

	var texts []Text
	seen := map[string]bool{}
	put := func(t Text) {
		key := t.Dataset + "\x00" + t.Content
		if t.injected != "" {
			key = t.Dataset + "\x00" + t.injected
		}
		if seen[key] {
			return
		}
		seen[key] = true
		t.group = GroupOf(t.Dataset)
		if _, ok := groups[t.Dataset]; !ok && t.Attack {
			t.Dataset = smallSets
		}
		t.Counts = t.group < GroupCount
		texts = append(texts, t)
	}
	if err := loadLines(names, put); err != nil {
		return nil, err
	}
	if err := loadDojo(names, put); err != nil {
		return nil, err
	}
	attack, benign := drawn(drawnLines)
	for i := range attack {
		put(Text{Dataset: drawnSet, Attack: true, Content: attack[i]})
		put(Text{Dataset: drawnSet, Content: benign[i]})
	}
	return texts, nil
}

// loadLines reads files of labeled lines. It skips attacks with a weak signal, because such texts contain no order. It
// also skips notes that agents wrote under attack.
func loadLines(names []string, put func(Text)) error {
	for _, file := range names {
		if base := filepath.Base(file); strings.HasPrefix(base, "sessions_") || base == "attack_asb_memory.jsonl" {
			continue
		}
		var line struct {
			Dataset string `json:"dataset"`
			Label   string `json:"label"`
			Signal  string `json:"signal"`
			Content string `json:"content"`
			Meta    struct {
				Injected string `json:"injected_text"`
			} `json:"meta"`
		}
		err := eachLine(file, &line, func() {
			attack := line.Label == "attack"
			if !attack || line.Signal != "weak" {
				put(Text{Dataset: line.Dataset, Attack: attack, Content: line.Content, injected: line.Meta.Injected})
			}
			line.Signal, line.Meta.Injected = "", ""
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// loadDojo reads the tool results of AgentDojo. For a result with an attack, the sentences that no harmless result
// contains count as the attacker's part.
func loadDojo(names []string, put func(Text)) error {
	type step struct {
		Kind     string `json:"kind"`
		Content  string `json:"content"`
		Injected bool   `json:"injected"`
	}
	clean := map[string]bool{}
	var poisoned []string
	names = slices.DeleteFunc(slices.Clone(names), func(f string) bool {
		return !strings.HasPrefix(filepath.Base(f), "sessions_agentdojo_")
	})
	slices.Sort(names)
	slices.Reverse(names) // the clean ones come first
	for _, file := range names {
		var session struct {
			Steps []step `json:"steps"`
		}
		err := eachLine(file, &session, func() {
			for _, s := range session.Steps {
				if s.Kind != "tool_result" {
					continue
				}
				if s.Injected {
					poisoned = append(poisoned, s.Content)
					continue
				}
				for _, p := range pieces(s.Content) {
					clean[p] = true
				}
				put(Text{Dataset: "AgentDojo", Content: s.Content})
			}
			session.Steps = nil
		})
		if err != nil {
			return err
		}
	}
	for _, content := range poisoned {
		var injected []string
		for _, p := range pieces(content) {
			if !clean[p] {
				injected = append(injected, p)
			}
		}
		put(Text{Dataset: "AgentDojo", Attack: true, Content: content, injected: strings.Join(injected, "\n")})
	}
	return nil
}

func pieces(s string) []string {
	return strings.FieldsFunc(strings.ReplaceAll(s, `\n`, "\n"), func(r rune) bool {
		return r == '\n' || r == '.' || r == '!'
	})
}

// eachLine decodes each line of a file into v and calls f.
func eachLine(file string, v any, f func()) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for n := 1; lines.Scan(); n++ {
		if err := json.Unmarshal(lines.Bytes(), v); err != nil {
			return fmt.Errorf("%s line %d: %w", file, n, err)
		}
		f()
	}
	return lines.Err()
}
