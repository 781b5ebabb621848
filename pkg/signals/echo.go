package signals

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"lazaret/pkg/intent"
	"lazaret/pkg/signals/index"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// minValue is the minimum length in bytes of an argument that counts as distinctive, because it hardly occurs by
// chance.
const minValue = 12

func init() {
	register(partDirectives|partCarriers|partRecalls, Signal{
		Name:   "signal.echo",
		Doc:    "instructions in the project's untrusted content that this action would carry out",
		Key:    "session, tool word, carrier",
		Window: "all",
		Bound:  "4000 instructions",
		Cost:   "1 per word of the tool's name, 1 per carrier",
	}, (*State).echo)
}

// Served is an instruction in untrusted content that a pending action would carry out.
type Served struct {
	Observation  string  `cel:"observation" doc:"event that contained the instruction"`
	By           string  `cel:"by" doc:"what the instruction and the action have in common: tool, carrier, value or words"`
	Value        string  `cel:"value"`
	Source       string  `cel:"source"`
	SameSession  bool    `cel:"same_session" doc:"the instruction was read in this session, or a recall of this session served it"`
	Recalled     bool    `cel:"recalled" doc:"a recall of this session served the instruction, and the session did not read it itself"`
	UserNamed    bool    `cel:"user_named" doc:"the user's own words in this session name the act or the value, or leave the step to its source"`
	UserDocument bool    `cel:"user_document" doc:"the user's own words name the source of the instruction"`
	Memory       bool    `cel:"memory" doc:"the instruction is in a memory that neither the user nor the operator wrote"`
	Own          bool    `cel:"own" doc:"the instruction is in a memory that the agent wrote, from any source"`
	Commands     bool    `cel:"commands" doc:"besides a request, it has an override, a demand to obey, or secrecy"`
	Age          float64 `cel:"age" doc:"seconds since the instruction was read"`
}

// echo returns the instructions that the action would carry out. It includes an instruction only if the action has
// something in common with it, not only because it was read.
func (s *State) echo() []*Served {
	if s.servedRead {
		return s.servedBy
	}
	s.servedRead = true
	in := s.In
	if in.call == nil {
		return nil // not an action
	}
	c := s.In.call
	book := s.t.Index()
	if book == nil {
		return nil
	}
	var memory [2 * index.MaxDirectives]uint32
	ids := memory[:0]
	add := func(id index.LinkID, h uint32) {
		n := len(ids)
		ids = book.Linked(id, index.LinkKey(h), ids)
		more := ids[n:]
		ids = ids[:n]
		for _, id := range more {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	ids = s.notesHere(notesRead, ids)
	read := ids[:len(ids):len(ids)]
	recalled := s.notesHere(notesRecalled, nil)
	for _, id := range recalled {
		if !slices.Contains(read, id) {
			ids = append(ids, id)
		}
	}
	here := ids[:len(ids):len(ids)]
	book.PrefetchLinks(index.LinkTargets, in.carriers)
	book.PrefetchLinks(index.LinkWords, c.Things)
	for _, h := range in.carriers {
		add(index.LinkTargets, h)
	}
	for _, h := range c.Things {
		add(index.LinkWords, h)
	}
	add(index.LinkWords, c.Whole)
	if len(ids) == 0 {
		return nil
	}
	var n directive
	var buf []uint32
	for _, id := range ids {
		b := s.t.Get(tableNotes, s.t.NumberKey(id))
		if b == nil {
			continue
		}
		buf = n.read(b, buf[:0])
		if n.own && bytes.HasPrefix(n.source, ofTool) && slices.Contains(read, id) && !slices.Contains(recalled, id) {
			continue // a tool call of this session wrote this memory, perhaps the present call itself
		}
		same := slices.Contains(here, id)
		// The permission to follow the source (handed) counts only in the session in which the user gave it.
		n.handed = n.handed && slices.Contains(read, id)
		sv := s.match(&n, same)
		if sv == nil {
			continue
		}
		sv.Observation, sv.Source, sv.SameSession = string(n.event), string(n.source), same
		sv.Recalled = same && !slices.Contains(read, id)
		sv.Memory, sv.Commands, sv.Age = n.memory, n.commands, s.since(n.at)
		sv.UserDocument, sv.Own = n.userNamed, n.own
		s.servedBy = append(s.servedBy, sv)
		s.servedOn = append(
			s.servedOn,
			streams.Rest{
				Agent:       string(n.agent),
				Observation: sv.Observation,
				Belief:      string(n.belief),
				Source:      sv.Source,
				By:          "instruction",
				Value:       sv.Value,
			},
		)
	}
	return s.servedBy
}

// ofTool is the beginning of the source of a memory that was written by a call of a host's tool.
var ofTool = []byte("tool:")

// match returns how the action carries out one of the note's sentences, or nil. If several sentences fit, it prefers
// one that asks for something for which the user did not ask (UserNamed is false).
func (s *State) match(n *directive, same bool) (best *Served) {
	in, c := s.In, s.In.call
	if in.intent.Files && !n.document && s.writesOut(n) {
		return &Served{By: "value", Value: streams.Clip(in.Action.Text, 120)}
	}
	for i, words := range n.sentences {
		commands := hasHash(words, intent.Command)
		if sv := s.serves(n.named[i], words, commands, same); sv != nil {
			// Two cases count as asked for by the user. First, the user asked for the change of the file, and a
			// document may say what to write into it. Second, the user wants something done, and a document may say how
			// to build or test, or mention a change.
			sv.UserNamed = sv.UserNamed || n.document && !commands && (in.intent.Files ||
				in.intent.Ordinary && (sv.By != "carrier" && sv.By != "value" || in.Action.Args["command"] != nil))
			// The user asked the agent to do what the source of the note says, and this sentence may be one of those
			// steps.
			sv.UserNamed = sv.UserNamed || n.handed && !commands && in.intent.Handed
			if !sv.UserNamed {
				return sv
			}
			best = cmp.Or(best, sv)
		}
	}
	if hasHash(n.names, c.Whole) {
		sv := &Served{By: "tool", Value: in.Action.Tool, UserNamed: in.intent.Asked && in.intent.Closeness >= 100 ||
			n.handed && !n.commands && in.intent.Handed}
		if !sv.UserNamed {
			return sv
		}
		best = cmp.Or(best, sv)
	}
	if best != nil || !n.commands {
		return best
	}
	for _, line := range strings.Split(in.Action.Text, "\n") {
		if v := text.Normalize(line); len(v) >= minValue && strings.Count(v, " ") >= 1 &&
			bytes.Contains(n.text, []byte(v)) {
			named := slices.ContainsFunc(c.Values, func(x intent.Value) bool {
				return slices.Contains(in.intent.Values, x.Path) && strings.Contains(x.Text, line)
			})
			return &Served{By: "value", Value: streams.Clip(line, 120), UserNamed: named}
		}
	}
	return nil
}

// writesOut reports whether the action writes a sentence of a note into a file. It does if, for some sentence that the
// action writes, one sentence of the note has at least three quarters of its words.
func (s *State) writesOut(n *directive) bool {
	if !s.writesRead {
		s.writes, s.writesRead = intent.Sentences(s.In.Action.Text), true
	}
	return slices.ContainsFunc(s.writes, func(written []uint32) bool {
		return slices.ContainsFunc(n.sentences, func(words []uint32) bool {
			return 4*count(words, written) >= 3*len(written)
		})
	})
}

// serves compares the action with one sentence that asks for something. It compares their carriers, and the sentence's
// words with those of the action and of its arguments. Two kinds of values do not show that the action comes from the
// sentence: a value that the user named in this session, and a value that the user, the operator or the agent named
// before any external content did (see inside).
func (s *State) serves(carriers, words []uint32, commands, same bool) *Served {
	in, c := s.In, s.In.call
	for i, v := range in.Content.Carriers {
		if !hasHash(carriers, in.carriers[i]) || !commands && !reaches(v) || in.hostOfAddress(v) || s.inside(i) {
			continue
		}
		if !in.byUser(v) {
			return &Served{By: "carrier", Value: v}
		}
	}
	asks, act := c.Asks(words, same), count(words, c.Act) > 0
	if !asks && !act || in.elsewhere(carriers) {
		return nil
	}
	shared, unexplained := 0, 0
	var strong *intent.Value
	for i := range c.Values {
		v := &c.Values[i]
		if !v.In(words) {
			continue
		}
		if shared++; slices.Contains(in.intent.Values, v.Path) || s.known(v) {
			continue
		}
		unexplained++
		if strong == nil && (v.Marks > 0 || len(v.Tokens) > 1 && v.Date == nil) {
			strong = v
		}
	}
	// If the user named all values of the action, that counts as asking for the action.
	asked := in.intent.Asked || len(c.Values) > 1 && len(in.intent.Values) == len(c.Values)
	named := (asked || in.intent.Deed) && in.targetsNamed() // including the receivers
	switch {
	case strong != nil:
		return &Served{By: "value", Value: streams.Clip(strong.Text, 120), UserNamed: named}
	case same && unexplained > 1:
		return &Served{By: "value", Value: streams.Clip(c.Values[0].Text, 120), UserNamed: named}
	case !asks, shared == 0 && len(c.Values) > 0 && !commands &&
		(in.intent.Asked || in.intent.Deed || in.intent.Files):
		// If the user asked for an action of this kind, a word that the sentence shares with the tool's name does not
		// show that the action comes from the sentence.
		return nil
	}
	// The user, and not the content, is the cause of the action if the user asked for it and also met one of three
	// conditions: named all receivers, named all values that the sentence has, or named the tool as closely as the
	// sentence does.
	by, what := "tool", in.Action.Tool
	if w := s.sharedWords(words); w != "" && !hasHash(words, c.Whole) && !act && count(words, c.Things) == 0 {
		by, what = "words", w // the sentence has nothing of the tool's name, so show words of the arguments
	}
	return &Served{By: by, Value: what,
		UserNamed: named || asked && (len(c.Values) > 0 && unexplained == 0 || in.intent.Closeness >= c.Strength(words))}
}

// maxShared is the maximum number of shared words that an explanation lists.
const maxShared = 6

// sharedWords returns the words that both the action's arguments and a sentence have.
func (s *State) sharedWords(words []uint32) string {
	var out []string
	for w := range strings.FieldsFuncSeq(text.Normalize(s.In.Action.Text), intent.NotWord) {
		if h := intent.StemHash(w); slices.Contains(s.In.call.Args, h) && hasHash(words, h) && !slices.Contains(out, w) {
			if out = append(out, w); len(out) == maxShared {
				break
			}
		}
	}
	return streams.Clip(strings.Join(out, ", "), 120)
}

// known reports whether a value of the action is a carrier that the user, the operator or the agent named first (see
// inside).
func (s *State) known(v *intent.Value) bool {
	i := s.carrierOf(v)
	return i >= 0 && s.inside(i)
}

// carrierOf returns the index of the carrier that is the value v of the action. If v is no carrier, it returns -1.
func (s *State) carrierOf(v *intent.Value) int {
	return slices.IndexFunc(s.In.Content.Carriers, func(c string) bool {
		_, x, _ := strings.Cut(c, ":")
		return strings.EqualFold(x, v.Text)
	})
}

// inside reports whether the user, the operator or the agent named carrier i of the action before any external content
// did.
func (s *State) inside(i int) bool {
	m := &s.met()[i]
	return m.ok && !(s.noted && m.ref&^index.NamedByUser == s.ownRef) && !s.originOfMet(m).external
}
