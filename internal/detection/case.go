package detection

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/internal/replay"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// The signals of a line, as labeled in its file.
const (
	Strong  = "strong"  // the text instructs the agent
	Weak    = "weak"    // the text states a plausible fact or preference
	Null    = "null"    // benign or unknown
	Lexical = "lexical" // labeled by a list of words, so excluded from figures by signal
)

// Case is a line or session of a corpus, with its labels and its results in the ledger.
type Case struct {
	Script  replay.Script
	Dataset string
	Class   string
	Signal  string
	Session bool
	Attack  bool // the line is an attack, or the session is attacked
	// Cluster is equal for lines that contain the same attack. It is the attacker's text if that is known,
	// otherwise the content. For a session it is the session's name.
	Cluster string
	// Owner means that the content comes from the user or the operator, who may give instructions.
	Owner bool
	// Actions are the counted actions: those of the attacker, or those of an agent that is not
	// attacked.
	Actions []*Action

	content string    // id of the event with the content; empty for sessions
	text    string    // the content
	read    bool      // external content that was read; the text model's rules apply to it
	judged  bool      // the ledger has the content
	flagged []finding // findings of text rules on the content
}

// Action is an action whose verdict is counted.
type Action struct {
	ID    string
	Goal  bool // an action of the attacker
	Empty bool // the action has no arguments
	Text  string

	level   beliefs.Level
	entry   string // policy entry
	decided bool
	held    []finding // findings of sentinel rules that held or denied the action
}

// finding is a rule that matched, with its message.
type finding struct{ rule, why string }

// note adds a finding, unless fs has one of the same rule.
func note(fs []finding, rule, why string) []finding {
	if slices.ContainsFunc(fs, func(f finding) bool { return f.rule == rule }) {
		return fs
	}
	return append(fs, finding{rule, why})
}

// record has the labels of a line, which is a session or a single content.
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

// Filter selects lines.
type Filter struct {
	Dataset string // empty means all
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
			return fmt.Errorf("%q is a duplicate: give each file once and each line a unique id", c.Script.Name)
		}
		seen[c.Script.Project] = true
		taken[file]++
		out = append(out, c)
		return nil
	})
	if err == nil && len(out) == 0 {
		in := strings.Join(paths, ", ")
		if err = fmt.Errorf("no lines in %s", in); f.Dataset != "" {
			err = fmt.Errorf("no line of data set %q in %s", f.Dataset, in)
		}
	}
	return out, err
}

func parse(file string, line []byte) (*Case, error) {
	var r record
	script, err := replay.ParseLabeled(file, line, &r)
	if err != nil {
		return nil, err
	}
	c := &Case{Script: script, Dataset: r.Dataset, Class: r.Class, Signal: r.Signal}
	switch {
	case r.Dataset == "":
		return nil, fmt.Errorf("the field `dataset` of %q is missing or empty", script.Name)
	case r.Label == "" && r.SessionID != "":
		c.Session, c.Attack, c.Class, c.Cluster = true, r.Attacked, r.Kind, script.Name
	case r.Label == "attack", r.Label == "benign":
		c.Attack, c.Cluster = r.Label == "attack", r.Meta.Injected
	default:
		return nil, fmt.Errorf("label %q of %q is unknown: use attack or benign", r.Label, script.Name)
	}
	c.Cluster = cmp.Or(c.Cluster, r.Content)
	c.Signal = cmp.Or(c.Signal, Null)
	if r.Meta.SignalBy == Lexical {
		c.Signal = Lexical
	}

	var goals []bool // for each action: whether it is the attacker's
	for _, s := range r.Steps {
		if s.Kind == "action" {
			goals = append(goals, s.Goal == "exact")
		}
	}
	for _, st := range script.Steps {
		a, ok := st.Event.(*streams.Action)
		if !ok {
			if !c.Session { // the last step is the content; before it is the user's task
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
