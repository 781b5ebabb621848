package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"lazaret/pkg/beliefs"
)

// Offered is a tool as a server's catalogue offers it.
type Offered struct {
	Name, Description   string
	Schema, Annotations []byte
}

// Proposal is the level at which a person is asked to accept a tool, with the reason.
type Proposal struct {
	Tool  string        `json:"tool"`
	Level beliefs.Level `json:"level"`
	// From is the source of the level: policy, profile, hint, words, or nothing.
	From    string `json:"from"`
	Because string `json:"because"`
	// Doubts are claims of the server that did not lower the level.
	Doubts []string `json:"doubts,omitzero"`
}

// Propose returns the level at which a person may accept a tool of a server. If a signed entry names the tool, the
// entry decides. Otherwise the profile decides, if the command that starts the server names the profile's package.
// Otherwise the words of the tool's name give the level, and hints of the server and the names of the tool's arguments
// can raise it. Only if the policy knows no word of the name can the level be lowered: by a hint, or, to L1, by the
// first word of the description.
func (p *Policy) Propose(t Offered, profile *ProfileMatch) Proposal {
	c := p.Classify(t.Name, nil, "", "")
	out := Proposal{Tool: t.Name, Level: c.Level}
	if c.explicit {
		out.From, out.Because = "policy", "entry "+c.Entry+" names it"
		return out
	}
	known := c.Entry != Otherwise && !c.Unmatched()
	if known {
		out.From, out.Because = "words", fmt.Sprintf("its name has words of policy entry %s", c.Entry)
	} else {
		out.Level, out.From, out.Because = beliefs.L4, "nothing", "nothing says what it does"
	}
	if profile != nil {
		if l, because, ok := profile.Tool(t.Name); ok && profile.Known {
			return Proposal{Tool: t.Name, Level: l, From: "profile", Because: profile.Name + ": " + because}
		} else if ok {
			out.Doubts = append(out.Doubts,
				fmt.Sprintf("profile %s says %s, and only the server's own name suggests the profile", profile.Name, l))
		}
	}
	out.hints(t, known)
	if out.From == "nothing" && describesReading(t.Description) {
		out.Level, out.From, out.Because = beliefs.L1, "words", "its description begins with a word of reading"
	}
	out.schema(t.Schema)
	return out
}

// hints applies the annotations. known says whether the policy knows a word of the tool's name.
func (x *Proposal) hints(t Offered, known bool) {
	if len(t.Annotations) == 0 {
		return
	}
	var a annotations
	if json.Unmarshal(t.Annotations, &a) != nil {
		x.raise(beliefs.L4, "hint", "its annotations cannot be read")
		return
	}
	says := func(hint *bool, v bool) bool { return hint != nil && *hint == v }
	level, why := beliefs.L4, ""
	switch {
	case says(a.Destructive, true) && !says(a.ReadOnly, true):
		x.raise(beliefs.L4, "hint", "the server says destructiveHint: true")
		return
	case says(a.ReadOnly, true) && says(a.OpenWorld, true):
		level, why = beliefs.L2, "the server says readOnlyHint: true, openWorldHint: true"
	case says(a.ReadOnly, true):
		level, why = beliefs.L1, "the server says readOnlyHint: true"
	case says(a.Destructive, false) && says(a.OpenWorld, false):
		level, why = beliefs.L3, "the server says destructiveHint: false, openWorldHint: false"
	case says(a.OpenWorld, true) && x.Level >= beliefs.L3:
		x.raise(beliefs.L4, "hint", "the server says openWorldHint: true, and it changes something")
		return
	default:
		return
	}
	switch {
	case level >= x.Level:
	case known:
		x.Doubts = append(x.Doubts, fmt.Sprintf("%s, which would be %s", why, level))
	default:
		x.Level, x.From, x.Because = level, "hint", why
	}
}

// schema raises the level because of the arguments that a tool takes.
func (x *Proposal) schema(schema []byte) {
	for _, name := range argumentNames(schema) {
		switch strings.ToLower(name) {
		case "command", "cmd", "script", "code", "shell", "sql", "javascript":
			x.raise(beliefs.L4, "words", "it takes an argument "+name+", which may run anything")
		case "url", "uri", "host", "endpoint":
			x.raise(beliefs.L2, "words", "it takes an argument "+name+", so an outsider may learn of the call")
		case "recipient", "recipients", "to", "cc", "bcc", "email", "phone", "iban":
			if x.Level > beliefs.L1 {
				x.raise(beliefs.L4, "words", "it takes an argument "+name+", so it may reach another person")
			}
		}
	}
}

func (x *Proposal) raise(l beliefs.Level, from, because string) {
	if l > x.Level || l == x.Level && x.From == "nothing" {
		x.Level, x.From, x.Because = l, from, because
	}
}

// argumentNames returns the names of the arguments in a schema, in order. If the schema is
// stored with other fields of its tool, it is under input.
func argumentNames(schema []byte) []string {
	var s struct {
		Properties map[string]jsontext.Value `json:"properties"`
		Input      struct {
			Properties map[string]jsontext.Value `json:"properties"`
		} `json:"input"`
	}
	if len(schema) == 0 || json.Unmarshal(schema, &s) != nil {
		return nil
	}
	var names []string
	for _, m := range []map[string]jsontext.Value{s.Properties, s.Input.Properties} {
		for name := range m {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// readingWords are first words in descriptions of tools that read.
var readingWords = contentWords(strings.Fields(
	`get gets read reads list lists search searches find finds look looks lookup return returns show shows retrieve
	retrieves fetch fetches query queries describe describes view views count counts check checks inspect inspects`))

// describesReading reports whether the first sentence of a description begins with a reading word
// and has no changing word.
func describesReading(description string) bool {
	sentence, _, _ := strings.Cut(strings.ToLower(description), ".")
	words := strings.FieldsFunc(sentence, func(r rune) bool { return r < 'a' || r > 'z' })
	if len(words) == 0 || !readingWords[words[0]] {
		return false
	}
	return !slices.ContainsFunc(words, func(w string) bool {
		return changingWords[w] || changingWords[strings.TrimSuffix(w, "s")]
	})
}

var changingWords = contentWords(strings.Fields(
	`send delete remove write create update set change modify edit post publish pay buy transfer execute run
	install upload submit book cancel grant revoke overwrite replace move rename insert append reset`))
