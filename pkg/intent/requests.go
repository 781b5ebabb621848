package intent

import (
	"cmp"
	"iter"
	"reflect"
	"slices"
	"strings"

	"lazaret/pkg/text"
)

// maxRequests is the maximum number of requests of a session that are stored. If there are more, the latest are
// stored.
const maxRequests = 64

// maxAsked is the maximum number of words of a request that are stored.
const maxAsked = 256

// Ask is a request: a part of the user's words that asks for one thing. It is a sentence, or a part of a sentence. A
// further verb in the sentence begins a new request.
type Ask struct {
	Words []uint32 // the result of Words, with hashes of deeds and marks such as handed
	// Named are the words of the request that name a single thing: proper names, addresses,
	// files, numbers and quotations.
	Named []uint32
	// Looked is set if the agent passed a value of this request to a tool that reads. The result of
	// the tool may say which thing the user means.
	Looked bool
	// Shown is set if the agent was shown such a result. Found has the words of these results. If they had too many
	// words, Full is set, and Found is empty.
	Shown, Full bool
	Found       []uint32
}

// maxFound is the maximum number of words of results that are stored for a request.
const maxFound = 2000

// Said holds the words of a session's user.
type Said struct {
	Words    []uint32
	Requests []Ask
	Sources  []uint32 // words of the sources that the user named, see Read
	Known    []uint32 // words of values that the agent passed to tools before it read anything external, see Know
	// Texts are the user's messages, oldest first. Only command lines and files that are loaded are compared with them,
	// see AsksForCommand and asksForLoaded.
	Texts []string
}

// Add adds the requests and words of a text of the user.
func (s *Said) Add(said string) {
	s.Words = Say(s.Words, said)
	s.Texts = append(s.Texts, said)
	s.Requests = append(s.Requests, requests(said)...)
	s.Requests = s.Requests[max(0, len(s.Requests)-maxRequests):]
}

var (
	// joins are words after which a verb begins a new request.
	joins = text.Set("and then also or please afterwards finally")
	// counted are words beside a number that counts something and does not name a single thing: "top 5", "3 of".
	counted = text.Set("of for under over than about at in on to by from with until between and or is are be the a an " +
		"next last first top up least most x")
	// more are words for receivers whom the user does not name individually.
	more = text.Set("everyone everybody everyone's others other all each list team group both cc rest members " +
		"participants attendees colleagues customers clients people staff them")
	days = text.Set("monday tuesday wednesday thursday friday saturday sunday")
)

// requests splits a text into requests.
func requests(said string) (out []Ask) {
	before := 0   // index of the first request of the previous sentence
	open := false // the previous sentence leaves its steps to a source that it does not name
	for line := range strings.Lines(said) {
		for words := range sentences(strings.Fields(line)) {
			from := len(out)
			out = appendRequests(out, words)
			var low []string
			for _, w := range words {
				low = append(low, text.Normalize(w))
			}
			named := slices.ContainsFunc(out[from:], func(q Ask) bool { return len(q.Named) > 0 })
			first := from
			if !named {
				first = before // the previous sentence names the things that this one is about
			}
			var marks []uint32
			over := false
			if !informs(low) {
				over = leavesOpen(low)
				marks = append(marks, handed)
			}
			if over || open && pronouns[bare(low[0])] {
				marks = append(marks, generic)
			}
			if marks != nil {
				for i := first; i < len(out); i++ {
					out[i].Words = Distinct(append(out[i].Words, marks...))
				}
			}
			before, open = from, over && !named
		}
	}
	return out
}

// sentences yields the sentences of a line.
func sentences(words []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		from := 0
		for i, raw := range words {
			end := strings.TrimRight(raw, "\"')")
			if i+1 == len(words) || end != "" && strings.ContainsAny(end[len(end)-1:], ".;!?") {
				if !yield(words[from : i+1]) {
					return
				}
				from = i + 1
			}
		}
	}
}

// appendRequests adds the requests of a sentence.
func appendRequests(out []Ask, words []string) []Ask {
	for _, part := range parts(words) {
		if r := request(part); r != nil {
			out = append(out, *r)
		}
	}
	return out
}

// parts divides a sentence at further verbs.
func parts(words []string) (out [][]string) {
	from, prev := 0, ""
	for i, raw := range words {
		w := text.Normalize(raw)
		if v := Stem(bare(w)); i > from && (deeds[v] != "" || means[v] != nil) &&
			(joins[prev] || strings.HasSuffix(prev, ",")) {
			out, from = append(out, words[from:i]), i
		}
		prev = w
	}
	return append(out, words[from:])
}

// bare returns a word without the punctuation around it.
func bare(w string) string { return strings.Trim(w, ".,;:!?()*\"'“”‘’`") }

// request parses one request. It returns nil if the text has no words.
func request(raw []string) *Ask {
	fields := make([]string, len(raw))
	var words []string // without the parts of addresses
	for i, w := range raw {
		fields[i] = text.Normalize(w)
		if !strings.ContainsAny(w, "@") && !strings.Contains(w, "://") && !strings.HasPrefix(fields[i], "www.") {
			words = append(words, fields[i])
		}
	}
	r := &Ask{Words: Words(words)}
	for _, w := range words {
		r.Words = appendMore(r.Words, w)
	}
	r.Words = Distinct(appendDeeds(r.Words, fields))
	quote, receiver, others := false, false, false
	for i, w := range raw {
		others = others || more[bare(fields[i])]
		opens := strings.IndexAny(w, "\"'“‘`") == 0
		quote = quote || opens
		if !quote && !names(raw, fields, i) {
			continue
		}
		if strings.ContainsAny(w, "@") || strings.Contains(w, "://") {
			r.Named = append(r.Named, Hash(fields[i]))
			receiver = receiver || !strings.Contains(w, "://")
		} else {
			for _, part := range SplitName(fields[i]) {
				if s := Stem(part); !dull[s] {
					r.Named = append(r.Named, Hash(s))
				}
			}
			if h := fileHash(fields[i]); h != 0 {
				r.Named = append(r.Named, h)
			}
		}
		end := strings.TrimRight(w, ".,;:!?)")
		if strings.TrimRight(end, "\"'”’`") != end && !(opens && bare(w) == "") {
			quote = false
		}
	}
	if len(r.Words) == 0 {
		return nil
	}
	if toName(raw, fields) && !slices.ContainsFunc(fields, func(w string) bool { return further[bare(w)] }) {
		r.Words = Distinct(append(r.Words, namedReceiver))
	}
	if receiver && !others {
		r.Words = Distinct(append(r.Words, onlyReceiver))
	}
	r.Named = Distinct(r.Named)
	r.Words, r.Named = r.Words[:min(len(r.Words), maxAsked)], r.Named[:min(len(r.Named), maxAsked)]
	return r
}

// onlyReceiver marks a request that contains the address of its receiver and mentions no other
// receiver. The mark is stored among the words of the request.
var onlyReceiver = Hash("\x00receiver")

// namedReceiver is a mark of a request that names its receiver: "send Lena the plan". It is stored like
// onlyReceiver.
var namedReceiver = Hash("\x00named receiver")

// further are words for receivers other than a named one.
var further = text.Set("everyone everybody others other all each every both cc rest whoever them")

// toName reports whether a name or an address follows a verb of sending, or "to".
func toName(raw, fields []string) bool {
	for i := range len(raw) - 1 {
		w := bare(fields[i])
		send := w == "to" || acts[Stem(w)] == "act:send" || slices.Contains(means[Stem(w)], deeds["send"])
		next := bare(raw[i+1])
		if send && (strings.Contains(next, "@") || proper(next) && !strings.ContainsAny(next, "/_.0123456789")) {
			return true
		}
	}
	return false
}

// names reports whether the i-th word names a single thing.
func names(raw, fields []string, i int) bool {
	w := bare(raw[i])
	prev := ""
	if i > 0 {
		prev = bare(fields[i-1])
	}
	letters, digits := 0, 0
	for _, c := range w {
		switch {
		case c >= '0' && c <= '9':
			digits++
		case !NotWord(c):
			letters++
		}
	}
	clock := strings.ContainsAny(w, ":-.,/")
	switch {
	case letters+digits == 0 || strings.HasSuffix(w, "'s") || strings.HasSuffix(w, "’s"):
		return false
	case strings.ContainsAny(w, "@/_") && letters > 0 || strings.Contains(w, ".") && letters > 2:
		return true
	case digits > 0 && letters > 0:
		return len(w) >= 4 // excludes 1st and 2pm
	case digits >= 5:
		return !clock
	case digits > 0:
		p := Stem(prev)
		noun := acts[p] == "" || i > 1 && nouns[bare(fields[i-2])]
		return !clock && noun && prev != "" && !counted[prev] && !dull[p] && !slices.Contains(months[:], p)
	case strings.Contains(w, "-") && w[0] >= 'a': // such as the package tidy-table
		return i > 1 && nouns[bare(fields[i-2])] && !nouns[prev] && !strings.HasSuffix(w, "s")
	}
	if i == 0 || !proper(raw[i]) {
		return false
	}
	if ends(raw[i]) || i+1 == len(raw) || proper(raw[i+1]) || i > 1 && proper(raw[i-1]) && !ends(raw[i-1]) {
		return true
	}
	// A capitalised word before another word describes it: the Texas order.
	next := fields[i+1]
	return counted[next] || nouns[next] || joins[next]
}

// ends reports whether punctuation after the word w ends a phrase.
func ends(w string) bool { return w != "" && strings.ContainsAny(w[len(w)-1:], ".,;:!?)") }

// proper reports whether a word is written like part of a proper name.
func proper(w string) bool {
	w = bare(w)
	if len(w) < 2 || w[0] < 'A' || w[0] > 'Z' {
		return false
	}
	low := Stem(strings.ToLower(w))
	return !slices.Contains(months[:], low) && !days[strings.ToLower(w)] && !dull[low] && acts[low] == ""
}

// guarded are deeds that move money, grant rights, or open locks. Only the user may choose the
// receiver of such a deed.
var guarded = Distinct([]uint32{Hash(deeds["pay"]), Hash(deeds["grant"]), Hash(deeds["unlock"])})

// unlocking is the deed of opening a lock.
var unlocking = Hash(deeds["unlock"])

// other returns the path of an argument that names a single thing, if the user asked for the act of the call, but named
// another thing in each request for it. parties are the people and accounts that the call names.
func (s *Said) other(c *Call, r *Relation, parties []text.Carrier) string {
	if !c.changes() || !understood(s.Words) {
		return ""
	}
	strangers := slices.DeleteFunc(slices.Clone(parties), func(x text.Carrier) bool {
		return slices.Contains(r.Carriers, string(x.Kind)+":"+x.Value)
	})
	if at := s.otherReceiver(c, r, parties); at != "" {
		return at
	}
	// For a guarded deed, one party that the user did not name is enough, even if the user named every other value.
	decided := Count(guarded, c.Deeds) > 0 && len(strangers) > 0
	if !decided {
		strangers = nil
	}
	if (r.Carriers != nil || r.Listed != nil) && !decided {
		return ""
	}
	at := ""
	for i := range c.Values {
		if v := &c.Values[i]; v.single() {
			if named := v.named(s.Words) || slices.Contains(r.Values, v.Path); named && !decided {
				return ""
			} else if !named {
				at = cmp.Or(at, v.Path, ".")
			}
		}
	}
	if at == "" {
		return ""
	}
	some := false
	for i := range s.Requests {
		q := &s.Requests[i]
		if !q.asks(c) {
			continue
		}
		// The result of a lookup must not decide which lock to open.
		looked := q.Looked && !(len(q.Named) > 0 && slices.Contains(c.Deeds, unlocking)) && s.explains(q, c, strangers)
		if looked || len(q.Named) == 0 && Count(guarded, c.Deeds) == 0 || !decided && q.touches(c.Values) {
			return ""
		}
		some = true
	}
	if !some {
		return ""
	}
	return at
}

// explains reports whether the call may follow from the results of the agent's lookups for a request. If no result
// was read yet, it may. strangers are the parties that the user did not name, for a guarded deed. If there are any,
// the results must have all of them. Otherwise one value must name a single thing that the user did not name, and
// the results must have it or the agent must have known it before. Every address, number and key that the user did
// not name must be such a value.
func (s *Said) explains(q *Ask, c *Call, strangers []text.Carrier) bool {
	if !q.Shown || q.Full {
		return true
	}
	for _, x := range strangers {
		// All words are required: north.wind.com@evil.example has three words of
		// billing@north-wind.com.
		if v := readValue("", x.Value); Count(q.Found, v.Tokens) < len(v.Tokens) {
			return false
		}
	}
	if strangers != nil {
		return true
	}
	found := false
	for i := range c.Values {
		switch v := &c.Values[i]; {
		case !v.single() || v.Prose || v.Date != nil || v.named(s.Words):
		case v.named(q.Found) || v.named(s.Known):
			found = true
		case v.address() || strings.ContainsAny(v.Text, "0123456789"):
			return false // an address, a number or a key must itself be in the results
		}
	}
	return found
}

// otherReceiver returns the path of an argument with an e-mail address that the user did not name, if every request
// for the act of the call has the address of its only receiver. In that case no content that the agent reads may choose
// another receiver.
func (s *Said) otherReceiver(c *Call, r *Relation, parties []text.Carrier) string {
	for i := range c.Values {
		v := &c.Values[i]
		stranger := v.address() && slices.ContainsFunc(parties, func(x text.Carrier) bool {
			return x.Kind == text.Email && strings.EqualFold(v.Text, x.Value) &&
				!slices.Contains(r.Carriers, string(x.Kind)+":"+x.Value)
		})
		if !stranger {
			continue
		}
		some := false
		for j := range s.Requests {
			q := &s.Requests[j]
			if !q.asks(c) {
				continue
			}
			if !Has(q.Words, onlyReceiver) {
				return ""
			}
			some = true
		}
		if some {
			return cmp.Or(v.Path, ".")
		}
		return ""
	}
	return ""
}

// asks reports whether a request may ask for this call: it names the call's deed, the tool or the tool's subject.
func (q *Ask) asks(c *Call) bool {
	return c.deed(q.Words) || c.asked(q.Words, false) || c.topical(q.Words)
}

// names reports whether the request names most of the words that tell a value of the call from others.
func (q *Ask) names(values []Value) bool {
	return slices.ContainsFunc(values, func(v Value) bool {
		return !v.Prose && v.Date == nil && !v.address() && 2*Count(q.Named, v.telling()) > len(v.telling()) &&
			(v.file == 0 || Has(q.Named, v.file))
	})
}

// touches reports whether the request names at least one of the words that tell a value of the call from others, for
// example a name in a title that the agent wrote. Of a path it must name most of them, because words in paths are
// common.
func (q *Ask) touches(values []Value) bool {
	return q.names(values) || slices.ContainsFunc(values, func(v Value) bool {
		path := strings.ContainsAny(v.Text, "/.") && !strings.Contains(v.Text, " ")
		return !path && !v.Prose && v.Date == nil && !v.address() && Count(q.Named, v.telling()) > 0
	})
}

// address reports whether a value is the address of a person or a thing.
func (x *Value) address() bool {
	return !x.Prose && (strings.Contains(x.Text, "@") || strings.Contains(x.Text, "://"))
}

// single reports whether a value names a single thing, or is an address or the name of a file.
func (x *Value) single() bool { return x.distinctive() || x.address() || x.file != 0 }

// Relate compares a call with the user's words, with each of the user's requests, and with the
// sources that the words name. files are the files that the call writes, if it does nothing else.
func (s *Said) Relate(tool string, args map[string]any, carriers []text.Carrier, files ...File) *Relation {
	r := relate(s.Words, s.people(), tool, args, carriers)
	if len(s.Requests) == 0 {
		return r
	}
	if r == nil {
		r = new(Relation)
	}
	c := ReadCall(tool, "")
	c.Values = ReadValues(args)
	s.relateSources(c, r, carriers)
	parties := slices.DeleteFunc(slices.Clone(carriers), func(x text.Carrier) bool { return !x.Kind.Traits().Party })
	// If each request for the act of the call names its own thing, no source may name another one, unless the user
	// left the steps open.
	if r.Handed && !s.marked(generic) && s.other(c, r, parties) != "" {
		r.Handed = false
	}
	switch {
	case r.Handed:
		r.Strange = ""
	case r.Strange == "":
		r.Other = s.other(c, r, parties)
	}
	s.relateFiles(c, r, files)
	s.relateAttached(c, r, tool, carriers)
	if reflect.ValueOf(r).Elem().IsZero() {
		return nil
	}
	return r
}

// Looks returns the keys of the requests for which a reading call is a lookup. The call is a lookup for a request if
// one of its values is in the request, or names a single thing that an earlier lookup for the request found. led is set
// if the session was shown external content, which may have led to the call. Then the call is no lookup if it has a
// value for a single thing and accounts is false for this value.
func (s *Said) Looks(tool string, args map[string]any, led bool) (keys []uint32) {
	c := ReadCall(tool, "")
	values := ReadValues(args)
	if c.Opens {
		c.Values = values
	}
	if c.changes() {
		return nil
	}
	if led && slices.ContainsFunc(values, func(v Value) bool { return v.single() && !s.accounts(&v) }) {
		return nil
	}
	for i := range s.Requests {
		q := &s.Requests[i]
		if q.names(values) || slices.ContainsFunc(values, func(v Value) bool {
			return v.Date == nil && v.named(q.Words) || v.single() && v.named(q.Found)
		}) {
			keys = append(keys, q.key())
		}
	}
	return keys
}

// accounts reports whether it is known where a value comes from: the user named it, a lookup for a request found it,
// or the agent knew it before it read anything external.
func (s *Said) accounts(v *Value) bool {
	return v.named(s.Words) || v.named(s.Known) || slices.ContainsFunc(s.Requests, func(q Ask) bool {
		return q.Full || v.named(q.Found)
	})
}

// Look marks the requests with these keys as looked up. It reports whether this changed a request.
func (s *Said) Look(keys []uint32) (changed bool) {
	for i := range s.Requests {
		if q := &s.Requests[i]; !q.Looked && slices.Contains(keys, q.key()) {
			q.Looked, changed = true, true
		}
	}
	return changed
}

// Know adds those values of a call that name single things to the words that the agent knows.
func (s *Said) Know(args map[string]any) {
	known := slices.Clone(s.Known)
	for _, v := range ReadValues(args) {
		if v.single() {
			known = append(known, v.Tokens...)
			if v.file != 0 {
				known = append(known, v.file)
			}
		}
	}
	known = Distinct(known)
	s.Known = known[:min(len(known), maxFound)]
}

// Find adds the words of a content to the results of the requests with these keys.
func (s *Said) Find(keys []uint32, content string) {
	var words []uint32
	for _, seg := range text.Segments(content) {
		for w := range strings.FieldsFuncSeq(text.Normalize(seg.Text), NotWord) {
			words = append(words, Hash(Stem(w)))
		}
		for w := range strings.FieldsSeq(text.Normalize(seg.Text)) {
			if h := fileHash(w); h != 0 {
				words = append(words, h)
			}
		}
	}
	for i := range s.Requests {
		q := &s.Requests[i]
		if q.Full || !slices.Contains(keys, q.key()) {
			continue
		}
		q.Shown, q.Found = true, Distinct(slices.Concat(q.Found, words))
		if len(q.Found) > maxFound {
			q.Full, q.Found = true, nil
		}
	}
}

// key identifies a request by its words.
func (q *Ask) key() uint32 {
	h := uint32(FNVBasis)
	for _, w := range q.Words {
		for range 4 {
			h = (h ^ w&0xff) * FNVPrime
			w >>= 8
		}
	}
	return h
}

// AppendRequests appends the requests to b.
func (s *Said) AppendRequests(b []byte) []byte {
	for i := range s.Requests {
		q := &s.Requests[i]
		flags := byte(0)
		for i, set := range []bool{q.Looked, q.Shown, q.Full} {
			if set {
				flags |= 1 << i
			}
		}
		b = append(b, flags)
		lists := [][]uint32{q.Words, q.Named, q.Found}
		if !q.Shown {
			lists = lists[:2]
		}
		for _, hs := range lists {
			b = appendHashes(b, hs)
		}
	}
	return b
}

// ReadRequests reads the output of AppendRequests. It drops an incomplete request.
func ReadRequests(b []byte) (out []Ask) {
	for len(b) > 0 {
		q := Ask{Looked: b[0]&1 != 0, Shown: b[0]&2 != 0, Full: b[0]&4 != 0}
		b = b[1:]
		lists := []*[]uint32{&q.Words, &q.Named, &q.Found}
		if !q.Shown {
			lists = lists[:2]
		}
		for _, hs := range lists {
			var ok bool
			if *hs, b, ok = readHashes(b); !ok {
				return out
			}
		}
		out = append(out, q)
	}
	return out
}
