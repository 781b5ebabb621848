package intent

import (
	"slices"
	"strings"

	"lazaret/pkg/text"
)

// Read adds words of a source that the user named to s.Sources: those of the addresses that are
// fields of their own. If handed is set, it adds all words of the content, because the user left it
// to the source to say what to do. carriers are the carriers of the content.
func (s *Said) Read(content string, carriers []text.Carrier, handed bool) {
	s.Sources = slices.Clone(s.Sources)
	for _, line := range fieldsOf(content, carriers) {
		for _, x := range carriers {
			if messaged(x.Kind) && strings.Contains(line, x.Value) {
				s.Sources = append(s.Sources, field(x))
			}
		}
	}
	if handed {
		for _, w := range strings.FieldsFunc(text.Normalize(unaddressed(content)), NotWord) {
			s.Sources = append(s.Sources, Words([]string{w})...)
			for _, deed := range append(slices.Clip(means[Stem(w)]), vague[Stem(w)]...) {
				s.Sources = append(s.Sources, Hash(deed))
			}
		}
	}
	s.Sources = Distinct(s.Sources)
	s.Sources = s.Sources[:min(len(s.Sources), MaxWords)]
}

// readers are words for a program that reads a text. A text that is written for people rarely has
// them.
var readers = text.Set("ai assistant assistants agent agents bot bots llm llms gpt chatgpt claude gemini copilot " +
	"chatbot model models automation system")

// unaddressed returns a content without the parts that address a program. Such a part begins at a
// word of readers, in a segment or a line, and ends at the next blank line or list item.
func unaddressed(content string) string {
	var b strings.Builder
	for _, seg := range text.Segments(content) {
		skip := false
		for line := range strings.Lines(seg.Text) {
			trimmed := strings.TrimSpace(line)
			if trimmed == "" || item(trimmed) {
				skip = false
			}
			if !skip {
				words := strings.FieldsFunc(strings.ToLower(trimmed), NotWord)
				skip = slices.ContainsFunc(words, func(w string) bool { return readers[w] })
			}
			if !skip {
				b.WriteString(line)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// item reports whether a line begins with the mark of a list.
func item(line string) bool {
	n := strings.IndexFunc(line, func(r rune) bool { return r < '0' || r > '9' })
	if n > 0 && strings.ContainsRune(".)", rune(line[n])) {
		return true
	}
	return len(line) > 1 && strings.ContainsRune("-*+|#", rune(line[0]))
}

// messaged reports whether people send messages to carriers of this kind.
func messaged(k text.Kind) bool { return k == text.Email || k == text.Handle || k == text.Phone }

// field returns the hash of a carrier that stands in a field of a source.
func field(x text.Carrier) uint32 { return Hash("\x00field" + string(x.Kind) + ":" + x.Value) }

// fieldsOf returns the fields of a content that may have an address, in lower case. A field is a
// cell, the value of a label, or an item of a list. A part of a sentence is not a field: besides
// the address, a field has at most one word in lower case.
func fieldsOf(content string, carriers []text.Carrier) (out []string) {
	if !slices.ContainsFunc(carriers, func(x text.Carrier) bool { return messaged(x.Kind) }) {
		return nil
	}
	for _, seg := range text.Segments(content) {
		for line := range strings.Lines(seg.Text) {
			for part := range strings.FieldsFuncSeq(line, endsField) {
				if !strings.Contains(part, "@") {
					continue
				}
				if label, rest, ok := strings.Cut(part, ": "); ok && len(strings.Fields(label)) <= 2 {
					part = rest
				}
				running := 0
				for w := range strings.FieldsSeq(part) {
					if len(w) > 1 && w[0] >= 'a' && w[0] <= 'z' && !strings.Contains(w, "@") {
						running++
					}
				}
				if running <= 1 {
					out = append(out, strings.ToLower(part))
				}
			}
		}
	}
	return out
}

func endsField(r rune) bool { return strings.ContainsRune(",;|<>()[]{}\t\"", r) }

// relateSources adds to a relation what the sources that the user named say about the call.
func (s *Said) relateSources(c *Call, r *Relation, carriers []text.Carrier) {
	if len(s.Sources) == 0 {
		return
	}
	if s.leavesReceiver(c) {
		for _, x := range carriers {
			listed := func(y text.Carrier) bool { return Has(s.Sources, field(y)) && (y == x || hostOf(x, []text.Carrier{y})) }
			if slices.ContainsFunc(carriers, listed) {
				r.Listed = append(r.Listed, string(x.Kind)+":"+x.Value)
			}
		}
	}
	open := s.leavesStep(c, r, carriers) && c.delegable() && s.asksIn(c)
	r.Handed = open && !slices.ContainsFunc(carriers, func(x text.Carrier) bool {
		v := string(x.Kind) + ":" + x.Value
		return (x.Kind.Traits().ReachesOut || x.Kind == text.Secret || x.Kind == text.Command || x.Kind == text.HexKey ||
			x.Kind == text.Opaque) && !slices.Contains(r.Carriers, v) && !slices.Contains(r.Listed, v)
	})
}

// leavesStep reports whether a source may ask for the call on behalf of the user. It may if the
// user left the steps open. It also may if the user wants something done, names the deed or all
// things in the tool's name, and named everybody whom the call reaches.
func (s *Said) leavesStep(c *Call, r *Relation, carriers []text.Carrier) bool {
	if s.marked(generic) {
		return true
	}
	named := r.Deed || r.Asked || Count(s.Words, c.Vague) > 0 ||
		len(c.Things) > 0 && Count(s.Words, c.Things) == len(c.Things)
	return named && s.marked(handed) && !slices.ContainsFunc(carriers, func(x text.Carrier) bool {
		return x.Kind.Traits().ReachesOut && !slices.Contains(r.Carriers, string(x.Kind)+":"+x.Value)
	})
}

// leavesReceiver reports whether a request for the act of the call names no receiver, so that a source may
// name it.
func (s *Said) leavesReceiver(c *Call) bool {
	return slices.ContainsFunc(s.Requests, func(q Ask) bool {
		return q.asks(c) && !Has(q.Words, namedReceiver) && !Has(q.Words, onlyReceiver)
	})
}

// hostOf reports whether x is only the host of an e-mail address among the carriers.
func hostOf(x text.Carrier, carriers []text.Carrier) bool {
	return x.Kind == text.Host && slices.ContainsFunc(carriers, func(y text.Carrier) bool {
		return y.Kind == text.Email && strings.HasSuffix(y.Value, "@"+x.Value)
	})
}

// asksIn reports whether a source to which the user left the steps contains a value of the call,
// and the source or the user names the act or half of the things in the tool's name.
func (s *Said) asksIn(c *Call) bool {
	held := slices.ContainsFunc(c.Values, func(v Value) bool { return !v.Prose && len(v.Tokens) > 0 && v.In(s.Sources) })
	named := func(words []uint32) bool {
		return Count(words, c.Act) > 0 || Count(words, c.Deeds) > 0 || 2*Count(words, c.Things) >= max(1, len(c.Things))
	}
	return held && (named(s.Sources) || named(s.Words))
}

// local are deeds that a source may ask for on behalf of the user. Left out are payments, rights,
// deletions, locks, commands, approvals and exports: only the user can ask for these. relateSources
// checks the receivers of messages.
var local = func() (hs []uint32) {
	const words = "send post create add register open update write close merge allocate pause restore"
	for w := range strings.FieldsSeq(words) {
		hs = append(hs, Hash(deeds[Stem(w)]))
	}
	return Distinct(hs)
}()

// wards are words for things by which somebody gets money, rights or lasting control.
var wards = stemmedSet("key token password secret credential role permission access admin administrator right " +
	"privilege owner member group rule filter forward forwarding redirect policy webhook hook cron config " +
	"configuration setting lock pin passcode default registry account bank iban payee beneficiary mandate invoice " +
	"payment salary share public limit factor mfa otp authentication firewall alarm")

func stemmedSet(words string) map[uint32]bool {
	m := make(map[uint32]bool)
	for _, w := range strings.Fields(words) {
		m[Hash(Stem(w))] = true
	}
	return m
}

// delegable reports whether the user may leave it to a source to ask for the call.
func (c *Call) delegable() bool {
	if len(c.Deeds) == 0 || Count(local, c.Deeds) != len(c.Deeds) {
		return false
	}
	ward := func(h uint32) bool { return wards[h] }
	if slices.ContainsFunc(c.Things, ward) {
		return false
	}
	return !slices.ContainsFunc(c.Values, func(v Value) bool {
		return slices.ContainsFunc(SplitName(v.Path), func(w string) bool { return wards[Hash(Stem(w))] }) ||
			len(v.Tokens) <= 2 && slices.ContainsFunc(v.Tokens, ward)
	})
}
