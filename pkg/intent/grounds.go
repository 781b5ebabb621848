package intent

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"lazaret/pkg/text"
)

// Limits of a source that is compared with calls.
const (
	MaxRecords     = 400  // lines; a longer source is not compared
	maxSourceWords = 8000 // in all records
)

// Grounds says how a call follows from one source that the user named. It is part of the action's
// ledger entry.
type Grounds struct {
	// Digest is the digest of the source's content, and Source its locator. Observations are the events of the
	// session that showed this content to the agent.
	Digest       string   `json:"digest"`
	Source       string   `json:"source,omitzero"`
	Observations []string `json:"observations"`
	// Values are the paths of the arguments, and the carriers as kind:value, that the source names
	// and the user does not name.
	Values []string `json:"values"`
	// Strange is the first argument or carrier that neither the source nor the user names. It is
	// empty if the whole call is grounded.
	Strange string `json:"strange,omitzero"`
	// Limit says why an approval of the source does not cover the call. It is empty if an approval
	// may cover it.
	Limit string `json:"limit,omitzero"`
	// Entry is the ledger position of the observation. The arbiter sets it.
	Entry uint64 `json:"entry,omitzero"`
}

// Source is a source that the user named, in the form in which calls are compared with it.
type Source struct {
	Records  [][]uint32 // words of each line, sorted
	Carriers []uint32   // hashes of the carriers, sorted
}

// Lines returns the text of a content line by line, without the syntax of its format. A record of a table or a JSON
// object becomes one line, with the name of the column or member before each value.
func Lines(content string) (lines []string) {
	record := 0
	for _, seg := range text.Segments(content) {
		for line := range strings.Lines(seg.Text) {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			if seg.Key != "" {
				line = seg.Key + ": " + line
			}
			if n := len(lines); seg.Record != 0 && seg.Record == record && n > 0 {
				lines[n-1] += "; " + line
			} else {
				lines = append(lines, line)
			}
			record = seg.Record
		}
	}
	return lines
}

// NewSource reads a content. carriers are its carriers. It returns nil if the content is too long to
// be compared.
func NewSource(content string, carriers []text.Carrier) *Source {
	lines := Lines(content)
	if len(lines) > MaxRecords {
		return nil
	}
	s, n := new(Source), 0
	for _, line := range lines {
		words := lineWords(line)
		if n += len(words); n > maxSourceWords {
			return nil
		}
		s.Records = append(s.Records, words)
	}
	for _, x := range carriers {
		s.Carriers = append(s.Carriers, Hash(string(x.Kind)+":"+x.Value))
	}
	s.Carriers = Distinct(s.Carriers)
	return s
}

func lineWords(line string) []uint32 { return Words(strings.FieldsFunc(text.Normalize(line), NotWord)) }

// Append appends the source to b, in the form that ReadSource reads.
func (s *Source) Append(b []byte) []byte {
	b = appendHashes(b, s.Carriers)
	for _, r := range s.Records {
		b = appendHashes(b, r)
	}
	return b
}

// ReadSource reads the output of Append. It drops an incomplete record.
func ReadSource(b []byte) *Source {
	s := new(Source)
	var ok bool
	if s.Carriers, b, ok = readHashes(b); !ok {
		return s
	}
	for len(b) > 0 {
		var r []uint32
		if r, b, ok = readHashes(b); !ok {
			break
		}
		s.Records = append(s.Records, r)
	}
	return s
}

func appendHashes(b []byte, hs []uint32) []byte {
	b = binary.AppendUvarint(b, uint64(len(hs)))
	for _, h := range hs {
		b = binary.BigEndian.AppendUint32(b, h)
	}
	return b
}

func readHashes(b []byte) (hs []uint32, rest []byte, ok bool) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)-k)/4 {
		return nil, nil, false
	}
	for b = b[k:]; n > 0; n-- {
		hs = append(hs, binary.BigEndian.Uint32(b))
		b = b[4:]
	}
	return hs, b, true
}

// Ground compares a call with a source. It returns nil unless the source names a value of the call that the user does
// not name. The caller sets the fields that identify the source.
func (s *Said) Ground(src *Source, tool string, args map[string]any, carriers []text.Carrier) *Grounds {
	c := ReadCall(tool, "")
	c.Values = ReadValues(args)
	g := &Grounds{Limit: c.limit(carriers)}
	if g.Limit == "" && slices.Contains(SplitName(tool), "share") {
		g.Limit = "the tool gives others access to something"
	}
	unnamed := func(name string) {
		g.Strange = cmp.Or(g.Strange, name)
	}
	for _, x := range carriers {
		v := string(x.Kind) + ":" + x.Value
		switch {
		case Has(s.Words, Hash(v)):
		case Has(src.Carriers, Hash(v)):
			g.Values = append(g.Values, v)
		case !hostOf(x, carriers):
			unnamed(v)
		}
	}
	for i := range c.Values {
		v := &c.Values[i]
		own := 0 // number of the value's words that the user used
		for _, h := range v.Tokens {
			if Has(s.Words, h) {
				own++
			}
		}
		switch {
		case own == len(v.Tokens) || len(v.Date) > 0 && Count(s.Words, v.Date) == len(v.Date):
		case v.Prose, c.message() && len(v.Tokens) >= minText:
			if !src.tells(v, s.Words) {
				unnamed(v.Path)
			}
		case src.names(v, s.Words):
			g.Values = append(g.Values, v.Path)
		default:
			unnamed(v.Path)
		}
	}
	if g.Values == nil {
		return nil
	}
	toggles, cut := switches(args)
	for _, w := range toggles {
		words := SplitName(w.path)
		stems := make([]uint32, len(words))
		for i, x := range words {
			stems[i] = Hash(Stem(x))
		}
		switch {
		case g.Limit == "" && slices.ContainsFunc(stems, func(h uint32) bool { return wards[h] }):
			g.Limit = "its argument " + w.path + " is about money, credentials, rights or settings"
		case w.on && !src.tells(&Value{Tokens: stems}, s.Words):
			unnamed(w.path)
		}
	}
	if cut || len(c.Values) == maxValues {
		unnamed("more arguments than are compared")
	}
	return g
}

// toggle is an argument that is true or false. Only the argument's name says what it does.
type toggle struct {
	path string
	on   bool
}

// switches returns the arguments that are true or false, in order of their paths. cut is set if the
// call has more arguments than are compared.
func switches(args map[string]any) (out []toggle, cut bool) {
	cut = leaves(args, func(path string, v any) bool {
		if on, ok := v.(bool); ok {
			out = append(out, toggle{path, on})
		}
		return len(out) < maxValues
	})
	return out, cut
}

// minText is the minimum number of words of an argument that counts as a text which the agent composed. Shorter
// arguments of a message are names.
const minText = 4

// message reports whether the call only sends something.
func (c *Call) message() bool {
	return len(c.Deeds) > 0 && !slices.ContainsFunc(c.Deeds, func(h uint32) bool { return h != Hash(deeds["send"]) })
}

// names reports whether one line of the source has all words of a value, except words that the user used. A line with
// the day and the month of a date is enough too.
func (src *Source) names(v *Value, user []uint32) bool {
	return slices.ContainsFunc(src.Records, func(line []uint32) bool {
		if len(v.Date) > 0 && Count(line, v.Date[1:]) == len(v.Date)-1 {
			return true // lists often leave the year out
		}
		return !slices.ContainsFunc(v.Tokens, func(h uint32) bool { return !Has(line, h) && !Has(user, h) })
	})
}

// tells reports whether at least half of the words of a text are in the source or in the user's words.
func (src *Source) tells(v *Value, user []uint32) bool {
	n := 0
	for _, h := range v.Tokens {
		if Has(user, h) || slices.ContainsFunc(src.Records, func(line []uint32) bool { return Has(line, h) }) {
			n++
		}
	}
	return 2*n >= len(v.Tokens)
}

// standing are words for instructions that have effects after the call too.
var standing = stemmedSet("memory instruction prompt skill standing recurring recurrence repeat rrule frequency " +
	"interval subscription subscribe")

// reserved are kinds of values with which a call hands over money, credentials or control.
var reserved = map[text.Kind]string{text.IBAN: "money", text.Card: "money", text.Crypto: "money",
	text.Secret: "a credential", text.HexKey: "a credential", text.Command: "a command"}

// limit says why no approval of a source covers the call. It returns "" if an approval may cover it. Calls for money,
// credentials, rights, deletions, commands and standing instructions must each be approved by themselves.
func (c *Call) limit(carriers []text.Carrier) string {
	for _, x := range carriers {
		if what := reserved[x.Kind]; what != "" {
			return "its arguments hold " + what
		}
	}
	lasting := func(h uint32) bool { return standing[h] }
	switch {
	case len(c.Deeds) == 0:
		return "the tool's name does not say what it changes"
	case Count(local, c.Deeds) != len(c.Deeds):
		return "the tool does more than to send, write or arrange something"
	case slices.ContainsFunc(c.Things, func(h uint32) bool { return wards[h] || lasting(h) }):
		return "the tool is about money, credentials, rights or settings"
	}
	for i := range c.Values {
		v := &c.Values[i]
		for _, w := range SplitName(v.Path) {
			if h := Hash(Stem(w)); wards[h] || lasting(h) {
				return "its argument " + v.Path + " is about money, credentials, rights or settings"
			}
		}
		if !c.message() && len(v.Tokens) <= 2 && slices.ContainsFunc(v.Tokens, func(h uint32) bool { return wards[h] }) {
			return "the value of " + v.Path + " is about money, credentials, rights or settings"
		}
	}
	return ""
}

// Line is a line of a source, as a person who approves it sees it.
type Line struct {
	Text string `json:"text"`
	Here bool   `json:"here,omitzero"` // names a value of the held call
	Asks bool   `json:"asks,omitzero"` // has a verb for something that a tool does
}

// Steps marks the lines of a source. values are the paths and carriers of the call's arguments that
// the source names.
func Steps(content string, args map[string]any, values []string) []Line {
	var out []Line
	all := ReadValues(args)
	for _, line := range Lines(content) {
		l := Line{Text: line}
		words := lineWords(line)
		for i := range all {
			v := &all[i]
			l.Here = l.Here || slices.Contains(values, v.Path) && !slices.ContainsFunc(v.Tokens, func(h uint32) bool {
				return !Has(words, h)
			})
		}
		low := strings.ToLower(line)
		for _, v := range values {
			if _, value, ok := strings.Cut(v, ":"); ok && strings.Contains(low, value) {
				l.Here = true
			}
		}
		for w := range strings.FieldsFuncSeq(text.Normalize(line), NotWord) {
			s := Stem(w)
			l.Asks = l.Asks || deeds[s] != "" && !slices.Contains(reading, Hash(acts[s])) || means[s] != nil
		}
		out = append(out, l)
	}
	return out
}
