package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// labelled is one text.
type labelled struct {
	dataset  string
	attack   bool
	counts   bool // in the validation
	content  string
	injected string // the attacker's part, where it is known
	group    int
}

// Groups are left out together. A group has attacks and harmless texts of
// different origin, so that no threshold profits from a neighbour.
const (
	groupCount  = 6
	always      = groupCount + iota // fitted in every fold
	neverFitted                     // texts of users, which the rules never score; they count in no fold
	nobody
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

const (
	smallSets = "small sets"
	drawnSet  = "drawn"
)

// load reads the corpora and draws lines from the grammars.
func load(dir string) ([]labelled, error) {
	var texts []labelled
	seen := map[string]bool{}
	put := func(t labelled) {
		key := t.dataset + "\x00" + t.content
		if t.injected != "" {
			key = t.dataset + "\x00" + t.injected
		}
		if seen[key] {
			return
		}
		seen[key] = true
		group, ok := groups[t.dataset]
		if !ok {
			group = groups[smallSets]
			if t.attack {
				t.dataset = smallSets
			}
		}
		t.group, t.counts = group, group < groupCount
		texts = append(texts, t)
	}
	if err := loadLines(dir, put); err != nil {
		return nil, err
	}
	if err := loadDojo(dir, put); err != nil {
		return nil, err
	}
	attack, benign := drawn(drawnLines)
	for i := range attack {
		put(labelled{dataset: drawnSet, attack: true, content: attack[i]})
		put(labelled{dataset: drawnSet, content: benign[i]})
	}
	return texts, nil
}

// loadLines reads the files of lines. Attacks of weak signal order nothing and
// are left out, and so is what agents wrote down under attack.
func loadLines(dir string, put func(labelled)) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no corpora in %s: %v", dir, err)
	}
	for _, file := range files {
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
				put(labelled{dataset: line.Dataset, attack: attack, content: line.Content, injected: line.Meta.Injected})
			}
			line.Signal, line.Meta.Injected = "", ""
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// loadDojo reads tool results of AgentDojo. The attacker's part of a result is
// the sentences that no clean result of the same environments has.
func loadDojo(dir string, put func(labelled)) error {
	type step struct {
		Kind     string `json:"kind"`
		Content  string `json:"content"`
		Injected bool   `json:"injected"`
	}
	clean := map[string]bool{}
	var poisoned []string
	for _, file := range []string{"sessions_agentdojo_clean.jsonl", "sessions_agentdojo_attacked.jsonl"} {
		var session struct {
			Steps []step `json:"steps"`
		}
		err := eachLine(filepath.Join(dir, file), &session, func() {
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
				put(labelled{dataset: "AgentDojo", content: s.Content})
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
		put(labelled{dataset: "AgentDojo", attack: true, content: content, injected: strings.Join(injected, "\n")})
	}
	return nil
}

func pieces(s string) []string {
	return strings.FieldsFunc(strings.ReplaceAll(s, `\n`, "\n"), func(r rune) bool { return r == '\n' || r == '.' || r == '!' })
}

// eachLine decodes each line of a file into v.
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
