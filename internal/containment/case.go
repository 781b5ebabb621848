package containment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"lazaret/internal/replay"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/lexical"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// Side is the author of a text.
type Side string

// The sides.
const (
	Attack   Side = "attack"
	User     Side = "user"     // a harmless statement of the user, remembered with origin user
	External Side = "external" // a harmless text from outside
	Note     Side = "note"     // a harmless text that an agent wrote to memory
)

// The ways in which an attacker's text enters a memory.
const (
	Recorded    = "recorded"    // as the recording has it
	Pasted      = "pasted"      // the user pastes it, and it is remembered with origin user
	Verbatim    = "verbatim"    // the agent writes it down without naming sources
	Paraphrased = "paraphrased" // the agent writes it down in other words and order
	Candidate   = "candidate"   // a third-party memory store presents it to the gate
	Excerpt     = "excerpt"     // the user pastes 8 to 40 words of the text
)

// Ways are the ways in the order of reports.
var Ways = []string{Recorded, Verbatim, Paraphrased, Pasted, Excerpt, Candidate}

// Case is a line or session of a labelled recording, with the texts that are recalled.
type Case struct {
	Script  replay.Script
	Dataset string
	Task    string // the user's request
	Texts   []*Text

	attacked bool
	acts     map[int]*Act // by step of the script
}

// Text is one text that is recalled.
type Text struct {
	Side    Side
	Content string
	Dataset string
	// Written reports whether the script writes the text to memory. Otherwise the script only reads it.
	Written bool

	asked  bool
	served map[string]bool // for an attack: by way, whether the text was admitted for planning
	found  bool            // for a harmless text: it was served or reachable as required
	aside  bool            // for an attack: it was reachable as context
	why    string          // for a harmless text: why it was not found
	cut    bool            // for an attack: an excerpt was pasted
	// noted is set if the agent noted the statement, planned if the note is admitted for planning.
	noted, planned bool
}

// maxStatements is the maximum number of the user's statements, and of the external texts, that are recalled per
// session. The first ones of a session are used.
const maxStatements = 12

type record struct {
	Dataset  string `json:"dataset"`
	Label    string `json:"label"`
	Class    string `json:"source_class"`
	Tool     string `json:"tool"`
	Content  string `json:"content"`
	UserTask string `json:"user_task"`
	Attacked bool   `json:"attacked"`
	Meta     struct {
		Injected string `json:"injected_text"`
		Channel  string `json:"channel"`
	} `json:"meta"`
	Steps []struct {
		Kind     string `json:"kind"`
		Op       string `json:"op"`
		Content  string `json:"content"`
		Class    string `json:"source_class"`
		Poisoned bool   `json:"poisoned"`
		Goal     string `json:"attacker_goal_match"`
		Injected any    `json:"injected"`
	} `json:"steps"`
}

// Read reads cases from files, or from the *.jsonl files of folders. No case at all is an error.
func Read(paths []string, limit int) ([]*Case, error) {
	var out []*Case
	taken := make(map[string]int)
	err := replay.Lines(paths, func(file string, line []byte) error {
		if limit > 0 && taken[file] == limit {
			return nil
		}
		taken[file]++
		c, err := parse(file, line)
		if err == nil {
			out = append(out, c)
		}
		return err
	})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%s: these files have no lines, so there is nothing to measure", strings.Join(paths, ", "))
	}
	return out, err
}

func parse(file string, line []byte) (*Case, error) {
	var r record
	script, err := replay.ParseLabeled(file, line, &r)
	if err != nil {
		return nil, err
	}
	if r.Dataset == "" {
		return nil, fmt.Errorf("the field `dataset` of %q is missing or empty", script.Name)
	}
	c := &Case{Script: script, Dataset: r.Dataset, Task: r.UserTask}
	if r.Steps == nil {
		c.line(&r)
		return c, nil
	}
	c.attacked = r.Attacked
	for at, st := range script.Steps {
		a, ok := st.Event.(*streams.Action)
		goal := ok && r.Attacked && r.Steps[st.Of].Goal == "exact"
		if ok && goal == r.Attacked && changes(a) && len(c.acts) < maxStatements {
			if c.acts == nil {
				c.acts = make(map[int]*Act)
			}
			c.acts[at] = &Act{Goal: goal}
		}
	}
	users, reads := 0, 0
	for _, s := range r.Steps {
		if strings.TrimSpace(s.Content) == "" {
			continue
		}
		injected := s.Poisoned || s.Injected != nil && s.Injected != false && s.Injected != ""
		switch {
		case injected && (s.Kind == "tool_result" || s.Kind == "memory"):
			c.add(&Text{Side: Attack, Content: s.Content, Written: s.Kind == "memory" && s.Op != "read"})
		case s.Kind == "user":
			if users++; users <= maxStatements {
				c.add(&Text{Side: User, Content: s.Content})
			}
			c.Task = cmp.Or(c.Task, s.Content)
		case s.Kind == "memory" && s.Op != "read" && s.Class == "user":
			c.add(&Text{Side: User, Content: s.Content, Written: true})
		case s.Kind == "memory" && s.Op != "read" && s.Class == "agent":
			c.add(&Text{Side: Note, Content: s.Content, Written: true})
		case r.Attacked:
			// In an attacked session, a text that is not marked as an attack may still be the attacker's. So it
			// counts neither as an attack nor as harmless.
		case s.Kind == "tool_result", s.Kind == "memory":
			if reads++; reads <= maxStatements {
				c.add(&Text{Side: External, Content: s.Content, Written: s.Kind == "memory" && s.Op != "read"})
			}
		}
	}
	return c, nil
}

// shipped returns the shipped policy.
var shipped = sync.OnceValues(func() (*policy.Policy, error) {
	return policy.Compile(policy.DefaultName, policy.Default)
})

// changes reports whether the shipped policy classifies an action as one that changes or sends.
func changes(a *streams.Action) bool {
	p, err := shipped()
	return err == nil && p.Classify(a.Tool, a.Args, "project", "agent").Level >= beliefs.L3
}

func (c *Case) line(r *record) {
	t := &Text{Content: r.Content, Written: r.Tool == "memory.write" || r.Meta.Channel == "memory"}
	switch {
	case r.Label == "attack":
		t.Side = Attack
	case r.Class == "user", r.Class == "system":
		t.Side = User
	case r.Class == "agent":
		t.Side = Note
	default:
		t.Side = External
	}
	c.add(t)
	if r.UserTask != "" {
		c.add(&Text{Side: User, Content: r.UserTask})
	}
}

// add adds a text unless it exists. A text that is an attack in one place is an attack everywhere.
func (c *Case) add(t *Text) {
	t.Dataset = c.Dataset
	for i, x := range c.Texts {
		if x.Content == t.Content {
			if t.Side == Attack && x.Side != Attack {
				c.Texts[i] = t
			}
			return
		}
	}
	c.Texts = append(c.Texts, t)
}

// query returns some words of a text, spread over its first kilobyte, as a search query for it.
func query(s string) string {
	if len(s) > 1024 {
		s = strings.ToValidUTF8(s[:1024], "")
	}
	var words []string
	for _, w := range strings.FieldsFunc(s, func(r rune) bool {
		return strings.ContainsRune(" \t\r\n\"'{}[](),:;<>|=", r)
	}) {
		if len(lexical.Words(w)) > 0 && !slices.Contains(words, w) {
			words = append(words, w)
		}
	}
	const most = 8
	if len(words) <= most {
		return strings.Join(words, " ")
	}
	var some []string
	for i := range most {
		some = append(some, words[i*len(words)/most])
	}
	return strings.Join(some, " ")
}

// paraphrase rewrites a text without a model: sentences in reverse order, common words replaced, and a
// frame like that of an agent's summary.
func paraphrase(s string) string {
	sentences := strings.FieldsFunc(s, func(r rune) bool { return r == '.' || r == '!' || r == '?' || r == '\n' })
	slices.Reverse(sentences)
	out := strings.TrimSpace(strings.Join(sentences, ". "))
	words := strings.Fields(out)
	for i, w := range words {
		bare := strings.TrimRight(w, ".,;:")
		if other, ok := synonyms[strings.ToLower(bare)]; ok {
			words[i] = other + w[len(bare):]
		}
	}
	return "Summary of what was found: " + strings.Join(words, " ") + "."
}

// synonyms replace words that are frequent in instructions.
var synonyms = map[string]string{"send": "forward", "please": "kindly", "must": "have to", "should": "ought to",
	"use": "employ", "get": "obtain",
	"give": "provide", "all": "every one of the", "user": "person", "account": "profile", "information": "data",
	"task": "job", "ignore": "disregard",
	"previous": "earlier", "important": "essential", "need": "require", "want": "wish", "show": "present",
	"make": "create", "also": "moreover",
	"you": "one", "your": "one's", "email": "mail", "message": "note", "instructions": "orders", "find": "look up",
	"call": "invoke", "and": "plus"}

// stepTime is the virtual time between steps that are added to a script.
const stepTime = 5 * time.Second
