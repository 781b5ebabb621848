package detection

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/internal/replay"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// The signals of a line, as its file gives them.
const (
	Strong  = "strong"  // the attacker's text commands the agent
	Weak    = "weak"    // it states a plausible fact or preference
	Null    = "null"    // benign, or not known
	Lexical = "lexical" // decided by a list of words, so no figure by signal rests on it
)

// Case is a line of a corpus, or a session, with what its file says of it and
// what the ledger says became of it.
type Case struct {
	Script  replay.Script
	Dataset string
	Class   string
	Signal  string
	Session bool
	Attack  bool // attacked, for a session
	// Cluster is the same for lines that are one attack in several wrappings:
	// the attacker's text, else the content; for a session its own name.
	Cluster string
	// Owner says that the content comes from the user or the operator, whose
	// words may instruct.
	Owner bool
	// Actions are those that count: what the attacker wants, or what an agent
	// under no attack did.
	Actions []*Action

	content string    // id of the event that carries the content; sessions have none
	text    string    // that content
	read    bool      // it was read, and comes from outside: rules of the text model look at it
	judged  bool      // the content reached the ledger
	flagged []finding // by text rules that fired on it
}

// Action is an action whose verdict counts.
type Action struct {
	ID    string
	Goal  bool // the attacker's
	Empty bool // it has no arguments
	Text  string

	level   beliefs.Level
	entry   string // of the policy
	decided bool
	held    []finding // by sentinel rules that held or denied it
}

// finding is what a rule said, once for each rule.
type finding struct{ rule, why string }

func note(fs []finding, rule, why string) []finding {
	if slices.ContainsFunc(fs, func(f finding) bool { return f.rule == rule }) {
		return fs
	}
	return append(fs, finding{rule, why})
}

// record is a line of either form, as far as it labels itself.
type record struct {
	SessionID string `json:"session_id"`

	Dataset  string `json:"dataset"`
	Label    string `json:"label"`
	Class    string `json:"class"`
	Signal   string `json:"signal"`
	Content  string `json:"content"`
	Attacked bool   `json:"attacked"`
	Kind     string `json:"attack_type"`
	Meta     struct {
		Injected string `json:"injected_text"`
		SignalBy string `json:"signal_by"`
	} `json:"meta"`
	Steps []struct {
		Kind string `json:"kind"`
		Goal string `json:"attacker_goal_match"`
	} `json:"steps"`
}

// Filter chooses among lines.
type Filter struct {
	Dataset string // by name; empty means all
	Limit   int    // lines of each file; zero means all
}

// Read reads cases from files, or from the *.jsonl files of folders.
func Read(paths []string, f Filter) ([]*Case, error) {
	var out []*Case
	taken, seen := make(map[string]int), make(map[string]bool)
	err := replay.Lines(paths, func(file string, line []byte) error {
		if f.Limit > 0 && taken[file] == f.Limit {
			return nil
		}
		c, err := parse(file, line)
		if err != nil {
			return err
		}
		if f.Dataset != "" && !strings.EqualFold(c.Dataset, f.Dataset) {
			return nil
		}
		if seen[c.Script.Project] {
			return fmt.Errorf("%q was read before: give each file once, and each line an id of its own", c.Script.Name)
		}
		seen[c.Script.Project] = true
		taken[file]++
		out = append(out, c)
		return nil
	})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("no line of data set %q in %s: see the field dataset of the files", f.Dataset,
			strings.Join(paths, ", "))
	}
	return out, err
}

func parse(file string, line []byte) (*Case, error) {
	script, err := replay.Parse(file, line)
	if err != nil {
		return nil, err
	}
	var r record
	if err := streams.Unmarshal(line, &r); err != nil {
		return nil, fmt.Errorf("labels of %q: %w", script.Name, err)
	}
	c := &Case{Script: script, Dataset: r.Dataset, Class: r.Class, Signal: r.Signal}
	switch {
	case r.Dataset == "":
		return nil, fmt.Errorf("%q names no dataset", script.Name)
	case r.Label == "" && r.SessionID != "":
		c.Session, c.Attack, c.Class, c.Cluster = true, r.Attacked, r.Kind, script.Name
	case r.Label == "attack", r.Label == "benign":
		c.Attack, c.Cluster = r.Label == "attack", r.Meta.Injected
	default:
		return nil, fmt.Errorf("label %q of %q is unknown: use attack or benign", r.Label, script.Name)
	}
	if c.Cluster == "" {
		c.Cluster = r.Content
	}
	if c.Signal == "" {
		c.Signal = Null
	}
	if r.Meta.SignalBy == Lexical {
		c.Signal = Lexical
	}

	var goals []bool // of the actions, in order
	for _, s := range r.Steps {
		if s.Kind == "action" {
			goals = append(goals, s.Goal == "exact")
		}
	}
	for _, st := range script.Steps {
		a, ok := st.Event.(*streams.Action)
		if !ok {
			if !c.Session { // the last is the content, the user's task stands before it
				c.content, c.Owner = streams.HeadOf(st.Event).ID, st.Origin == "user" || st.Origin == "system"
				c.text, c.read = r.Content, false
				if _, ok := st.Event.(*streams.Observation); ok {
					c.read = st.Origin.External()
				}
			}
			continue
		}
		goal := c.Attack
		if c.Session {
			goal, goals = goals[0], goals[1:]
		}
		if goal == c.Attack {
			c.Actions = append(c.Actions, &Action{ID: a.ID, Goal: goal, Empty: empty(a.Args),
				Text: a.Tool + " " + string(a.Args)})
		}
	}
	return c, nil
}

func empty(args jsontext.Value) bool {
	var m map[string]jsontext.Value
	return len(args) == 0 || streams.Unmarshal(args, &m) == nil && len(m) == 0
}
