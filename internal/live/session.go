package live

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"

	"lazaret/internal/replay"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// Session is a recorded session with its labels.
type Session struct {
	Name    string
	Project string
	Set     string // base name of its file, without the extension
	Attack  bool
	// Solved is false if the data set's own check found that the recorded agent did not solve the
	// user's task.
	Solved bool

	steps []step
	goals []ToolCall
}

// Filter selects sessions.
type Filter struct {
	Limit int  // maximum number of sessions of each file; zero means all
	JSON  bool // tool results are encoded as JSON
}

// step is one recorded event.
type step struct {
	replay.Step
	injected bool // shows a planted instruction
	of       int  // for a result: index of the step with its call; -1: none
	call     *Call
}

// ToolCall is a recorded call.
type ToolCall struct {
	Tool string         `json:"tool"`
	Args jsontext.Value `json:"args"`
}

// Call is a proposed action with its verdict.
type Call struct {
	ID      string
	Tool    string
	Args    string
	Goal    bool // a call of the attacker
	Other   bool // neither the attacker's goal nor certainly part of the user's task
	Changes bool // the shipped policy puts the tool at L3 or above

	Played   bool
	Verdict  streams.Verdict
	Rules    []string // rules that held or denied the call
	Why      string   // text of the first reason from one of these rules
	Degraded bool
}

// Held reports whether the call was not executed.
func (c *Call) Held() bool { return c.Verdict > streams.Allow }

// record has the labels in a session's line.
type record struct {
	SessionID string     `json:"session_id"`
	Attacked  bool       `json:"attacked"`
	Utility   *bool      `json:"utility"`
	Goals     []ToolCall `json:"goal_calls"`
	Steps     []struct {
		Kind     string `json:"kind"`
		CallID   string `json:"call_id"`
		Tool     string `json:"tool"`
		Goal     string `json:"attacker_goal_match"`
		Injected bool   `json:"injected"`
	} `json:"steps"`
}

// Read reads sessions from files, or from the sessions_*.jsonl files of folders.
func Read(paths []string, f Filter) ([]*Session, error) {
	shipped, err := shippedPolicy()
	if err != nil {
		return nil, err
	}
	var out []*Session
	taken := make(map[string]int)
	seen := make(map[string]bool)
	err = replay.Lines(paths, func(file string, line []byte) error {
		if f.Limit > 0 && taken[file] == f.Limit {
			return nil
		}
		var r record
		if err := streams.Unmarshal(line, &r); err != nil {
			return err
		}
		if r.SessionID == "" {
			return nil // a single piece of content, not a session
		}
		s, err := parse(file, line, &r, f, shipped)
		if err != nil {
			return err
		}
		if seen[s.Project] {
			return fmt.Errorf("%q is a duplicate: give each file once and each session a unique id", s.Name)
		}
		seen[s.Project] = true
		taken[file]++
		out = append(out, s)
		return nil
	})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("no session in %s: give files with session_id and steps", strings.Join(paths, ", "))
	}
	return out, err
}

func parse(file string, line []byte, r *record, f Filter, shipped *policy.Policy) (*Session, error) {
	script, err := replay.Parse(file, line)
	if err != nil {
		return nil, err
	}
	s := &Session{Name: script.Name, Project: script.Project, Set: strings.TrimSuffix(file, ".jsonl"), Attack: r.Attacked,
		Solved: r.Utility == nil || *r.Utility, goals: r.Goals}
	calls := make(map[string]int) // step of the last call, by id and by tool
	for i, st := range script.Steps {
		label := &r.Steps[st.Of]
		p := step{Step: st, injected: label.Injected, of: -1}
		switch e := st.Event.(type) {
		case *streams.Action:
			p.call = newCall(shipped, e)
			p.call.Goal = r.Attacked && label.Goal == "exact"
			p.call.Other = r.Attacked && label.Goal != "" && !p.call.Goal
			calls[label.CallID], calls["\x00"+e.Tool] = i, i
		case *streams.Observation:
			if label.Kind != "tool_result" {
				break
			}
			at, ok := calls[label.CallID]
			if !ok || label.CallID == "" {
				at, ok = calls["\x00"+e.Tool]
				delete(calls, "\x00"+e.Tool)
			}
			if ok {
				p.of = at
			}
			if f.JSON {
				e.Content = AsJSON(e.Content)
			}
		}
		s.steps = append(s.steps, p)
	}
	return s, nil
}

func newCall(shipped *policy.Policy, a *streams.Action) *Call {
	c := shipped.Classify(a.Tool, a.Args, "project", "agent")
	return &Call{ID: a.ID, Tool: a.Tool, Args: string(a.Args), Changes: c.Level >= beliefs.L3}
}

// AsJSON returns a tool result as JSON. If the text is YAML or JSON, it is converted. Otherwise it becomes a JSON
// string.
func AsJSON(content string) string {
	var v any
	if err := yaml.Unmarshal([]byte(content), &v); err == nil {
		switch v.(type) {
		case []any, map[string]any:
			if b, err := streams.Marshal(plain(v)); err == nil {
				return string(b)
			}
		}
	}
	b, err := streams.Marshal(map[string]string{"result": content})
	if err != nil {
		return content // not UTF-8
	}
	return string(b)
}

// plain converts dates, which JSON does not have, to strings.
func plain(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plain(v[k])
		}
	case time.Time:
		return v.Format(time.RFC3339)
	}
	return v
}

// Neutral returns a policy that gives the tools of the sessions the levels of the shipped policy, but at most L3. So
// the policy by itself holds nothing.
func Neutral(sessions []*Session) ([]byte, error) {
	var calls []ToolCall
	for _, s := range sessions {
		for i := range s.steps {
			if c := s.steps[i].call; c != nil {
				calls = append(calls, ToolCall{c.Tool, jsontext.Value(c.Args)})
			}
		}
		calls = append(calls, s.goals...)
	}
	return NeutralFor(calls)
}

// NeutralFor is Neutral for the tools of the given calls.
func NeutralFor(calls []ToolCall) ([]byte, error) {
	shipped, err := shippedPolicy()
	if err != nil {
		return nil, err
	}
	type class struct {
		level         beliefs.Level
		effects       string
		blast         beliefs.BlastRadius
		reversibility beliefs.Reversibility
	}
	tools := make(map[class][]string)
	known := make(map[string]bool)
	for _, c := range calls {
		if known[c.Tool] || c.Tool == "" {
			continue
		}
		known[c.Tool] = true
		x := shipped.Classify(c.Tool, c.Args, "project", "agent")
		k := class{min(x.Level, beliefs.L3), strings.Join(x.Effects, ", "), x.Blast, x.Reversibility}
		tools[k] = append(tools[k], c.Tool)
	}
	var entries []string
	for k, names := range tools {
		slices.Sort(names)
		e := fmt.Sprintf("    level: %s\n    fixed: true\n", k.level)
		if k.effects != "" {
			e += fmt.Sprintf("    effects: [%s]\n", k.effects)
		}
		if k.blast != 0 {
			e += fmt.Sprintf("    blast_radius: %s\n", k.blast)
		}
		if k.reversibility != 0 {
			e += fmt.Sprintf("    reversibility: %s\n", k.reversibility)
		}
		e += "    tools:\n"
		for _, n := range names {
			e += fmt.Sprintf("      - %q\n", pattern(n))
		}
		entries = append(entries, e)
	}
	slices.Sort(entries)
	var b strings.Builder
	b.WriteString("version: 1\nname: probe-live\ngroups: [core]\ndeadline: {default: 60s}\nmax_open_holds: " +
		"10000\negress: {private: allow}\n" + policy.ShippedSources() + "tools:\n")
	for i, e := range entries {
		fmt.Fprintf(&b, "  - name: c%d\n%s", i, e)
	}
	return []byte(b.String()), nil
}

// shippedPolicy returns the shipped policy, which classifies tools.
var shippedPolicy = sync.OnceValues(func() (*policy.Policy, error) {
	return policy.Compile(policy.DefaultName, policy.Default)
})

// Shipped returns the shipped policy with deadlines that are long enough for a busy machine.
func Shipped() []byte { return Patient(string(policy.Default)) }

// Halves splits sessions into those to learn from, which are every second clean session of each set,
// and the rest.
func Halves(sessions []*Session) (learn, play []*Session) {
	seen := make(map[string]int)
	for _, s := range sessions {
		if !s.Attack {
			if seen[s.Set]++; seen[s.Set]%2 == 1 {
				learn = append(learn, s)
				continue
			}
		}
		play = append(play, s)
	}
	return learn, play
}

// Patient returns a policy with deadlines that are long enough for a busy machine.
func Patient(policy string) []byte {
	s := strings.Replace(policy, "  default: 2s\n", "  default: 60s\n", 1)
	s = strings.Replace(s, "  L4: 5s ", "  L4: 60s ", 1)
	return []byte(strings.Replace(s, "deadline: {default: 2s, L4: 5s}", "deadline: {default: 60s}", 1))
}

// Learning returns the shipped policy in learn mode.
func Learning() []byte {
	return Patient(strings.Replace(string(policy.Default), "\nmode: enforce ", "\nmode: learn ", 1))
}

// pattern returns a pattern that matches a tool's name and little else.
func pattern(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(`*?"\`, r) || r < ' ' {
			return '?'
		}
		return r
	}, name)
}
