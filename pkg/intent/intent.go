package intent

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"lazaret/pkg/text"
)

// MaxWords is the maximum number of words that are stored for a session's user.
const MaxWords = 4000

// Relation is how an action relates to the user's words. It is part of the action's ledger entry.
type Relation struct {
	// Asked is set if the user's words name the tool: its whole name, or its act and at least half of the things in
	// its name. The method asked of Call has the exact conditions.
	Asked bool `json:"asked,omitzero"`
	// Closeness is how closely the user's words name the tool. 0 means not at all. 100 or more
	// means the tool itself, or its act with all of its things.
	Closeness int `json:"closeness,omitzero"`
	// Values are the paths of the arguments whose values occur in the user's words. Carriers are the addresses and
	// other carriers that the user named, as kind:value. An address also counts if the user named its owner: all
	// words before the @.
	Values   []string `json:"values,omitzero"`
	Carriers []string `json:"carriers,omitzero"`
	// Strange is the path of an argument that names a single thing. It is set if the call is unrelated to the user's
	// words: they name neither its act, nor any of its values, nor the things in its name. It stays empty if the
	// tool's name does not say that the call changes something, and if the user's words are not understood (see
	// understood).
	Strange string `json:"strange,omitzero"`
	// Other is the path of an argument that names a single thing. It is set if the user asked for
	// the act of the call, but each request for it named another thing than this argument.
	Other string `json:"other,omitzero"`
	// Deed is set if the user's words ask for what the tool does, by any medium and with any thing. For example, a
	// user who asks to tell somebody something asks for the deed of a tool that sends letters.
	Deed bool `json:"deed,omitzero"`
	// Listed are the carriers that are fields of a source that the user named, as kind:value.
	Listed []string `json:"listed,omitzero"`
	// Handed is set if the user left it to a source to say what to do, or with which things, and the source contains
	// a value of the call. It is never set for payments, rights, deletions, locks, commands and approvals. It is not
	// set either if the source has a receiver only inside a sentence, and the user did not name this receiver.
	Handed bool `json:"handed,omitzero"`
	// Ordinary is set if the user wants something done, and the call only builds or tests, or writes files that neither
	// agents nor programs follow by themselves.
	Ordinary bool `json:"ordinary,omitzero"`
	// Files is set if the call does nothing but write files, and the user asked for a change of each of them
	// by its name.
	Files bool `json:"files,omitzero"`
	// Attached is the path of an argument that names a file which the call sends, if the user's words do not name this
	// file. Such a file is not what the user asked for.
	Attached string `json:"attached,omitzero"`
}

// also lists further acts of verbs that people use for several acts.
var also = func() map[string][]string {
	m := make(map[string][]string)
	for word, classes := range map[string]string{
		"add": "grant", "invite": "create", "cancel": "delete", "remove": "revoke", "delete": "revoke", "move": "update",
		"reschedule": "update", "postpone": "update", "refund": "pay", "reimburse": "pay", "settle": "pay", "rent": "create",
		"respond": "send", "answer": "send", "tell": "send", "inform": "send", "contact": "send", "upload": "send",
		"append": "write update", "put": "write create", "save": "create", "write": "create", "share": "grant",
		"switch": "update", "extend": "update", "return": "pay",
	} {
		for _, c := range strings.Fields(classes) {
			m[Stem(word)] = append(m[Stem(word)], "act:"+c)
		}
	}
	return m
}()

// Say adds words of the user to the words of the session and returns the result, sorted and
// distinct, with at most MaxWords words.
func Say(words []uint32, said string) []uint32 {
	f := text.Analyze(said)
	fields := strings.Fields(text.Normalize(said))
	words = append(slices.Clone(words), Words(fields)...)
	for _, w := range fields {
		if words = appendMore(words, w); dotFile(w) != 0 {
			words = append(words, dotFile(w))
		}
	}
	for _, c := range f.Carriers {
		words = append(words, Hash(string(c.Kind)+":"+c.Value))
		if c.Kind == text.Email {
			words = append(words, given(c.Value), mailHost(c.Value))
		}
	}
	words = appendDeeds(words, fields)
	words = Distinct(words)
	return words[:min(len(words), MaxWords)]
}

// appendMore appends the hashes of the further acts of a word (see also), and that of the file that it names.
func appendMore(hs []uint32, w string) []uint32 {
	for _, part := range SplitName(w) {
		for _, act := range also[Stem(part)] {
			hs = append(hs, Hash(act))
		}
	}
	if h := fileHash(w); h != 0 {
		hs = append(hs, h)
	}
	return hs
}

var (
	// nouns are words after which a possible verb is a noun: the mail, my order, is new.
	nouns = text.Set("the a an my your our their his her its this that these those any each every all some no which " +
		"what is are was were of")
	// light are verbs whose object names the act: make a transfer.
	light = text.Set("make making do place process issue arrange create complete perform submit get need want have " +
		"request start")
	// receivers are words for the user. To tell or give something to the user is an answer, and
	// sends nothing.
	receivers = text.Set("me us")
)

// appendDeeds appends the deeds that normalized words ask for: those of verbs, and those of nouns after a verb in
// light. Parts of addresses and file names do not count.
func appendDeeds(hs []uint32, fields []string) []uint32 {
	prev, prev2 := "", ""
	for i, field := range fields {
		w := strings.TrimRight(field, ".,;:!?)\"'")
		w = strings.TrimLeft(w, "(\"'")
		if !nouns[prev] || light[prev2] {
			self := forUser(fields[i+1:])
			stem := Stem(w)
			for _, deed := range append(slices.Clip(means[stem]), deeds[stem]) {
				if deed != "" && !(self && toSomebody[deed]) {
					hs = append(hs, Hash(deed))
				}
			}
			for _, deed := range vague[stem] {
				if !(self && toSomebody[deed]) {
					hs = append(hs, vaguely(deed))
				}
			}
			hs = appendPhrases(hs, fields, i)
		}
		prev, prev2 = w, prev
		if w == "" || strings.ContainsAny(field[len(field)-1:], ".;:!?") {
			prev, prev2 = "", ""
		}
	}
	return hs
}

// forUser reports whether the words after a verb begin with the user as the person who is told or given something.
func forUser(fields []string) bool {
	next := func(i int) string {
		if i >= len(fields) {
			return ""
		}
		return strings.TrimRight(fields[i], ".,;:!?")
	}
	return receivers[next(0)] || (next(0) == "to" || next(0) == "back") && receivers[next(1)]
}

// toSomebody are deeds whose object is a person. If this person is the user, the deed changes nothing.
var toSomebody = map[string]bool{deeds["send"]: true, deeds["post"]: true, deeds["grant"]: true, deeds["invite"]: true}

// Relate compares a call with the user's words. args are the call's arguments, and carriers the
// carriers in their text.
func Relate(words []uint32, tool string, args map[string]any, carriers []text.Carrier) *Relation {
	return relate(words, words, tool, args, carriers)
}

// relate is like Relate. people are those of the words that may name the owner of a mail address.
func relate(words, people []uint32, tool string, args map[string]any, carriers []text.Carrier) *Relation {
	if len(words) == 0 {
		return nil
	}
	named := func(x text.Carrier) bool {
		return Has(words, Hash(string(x.Kind)+":"+x.Value)) || x.Kind == text.Email && owner(words, people, x.Value)
	}
	c := ReadCall(tool, "")
	c.Values = ReadValues(args)
	r := &Relation{Closeness: c.Strength(words)}
	for i := range c.Values {
		v := &c.Values[i]
		// A value that is a mail address may have only words of a site that the user named. Then it does not count
		// as named.
		if v.named(words) && !slices.ContainsFunc(carriers, func(x text.Carrier) bool {
			return x.Kind == text.Email && v.address() && strings.Contains(strings.ToLower(v.Text), x.Value) && !named(x)
		}) {
			r.Values = append(r.Values, v.Path)
		}
	}
	r.Asked = c.asked(words, len(r.Values) > 0 || len(c.Values) == 0)
	for _, x := range carriers {
		// A user who names a site does not name the mail addresses at its host.
		if named(x) && (!hostOf(x, carriers) || Has(words, mailHost("@"+x.Value))) {
			r.Carriers = append(r.Carriers, string(x.Kind)+":"+x.Value)
		}
	}
	r.Deed = c.deed(words)
	related := c.named(words) || r.Values != nil || r.Carriers != nil || r.Deed
	if !related && c.changes() && understood(words) {
		if i := slices.IndexFunc(c.Values, func(v Value) bool { return v.distinctive() }); i >= 0 {
			r.Strange = cmp.Or(c.Values[i].Path, ".")
		}
	}
	if !r.Asked && !r.Deed && r.Closeness == 0 && r.Values == nil && r.Carriers == nil && r.Strange == "" {
		return nil
	}
	return r
}

// function are words that nearly every English request has and texts in other languages rarely
// have.
var function = Words(strings.Fields("the and to of is my what which for please me with all that from this it " +
	"find check read write send book make create list show tell look fix help give add summarise summarize explain " +
	"compare update"))

// understood reports whether words are English. Relations are computed only for English: it is
// unknown whether a user of another language asked for an act.
func understood(words []uint32) bool { return Count(words, function) >= 2 }

// Faded returns the words that replace the words of a user after these have expired. They name nothing. They only show
// that the user's words were English, see understood.
func Faded(words []uint32) []uint32 {
	if !understood(words) {
		return nil
	}
	return Distinct(Words([]string{"the", "and"}))
}

// reading are acts that change nothing.
var reading = []uint32{Hash("act:get"), Hash("act:monitor"), Hash("act:recommend")}

// changes reports whether the tool's name says that the call changes something. A name without a known verb says so
// if it names a payment and an argument says how much or to whom. A call that opens a document changes nothing
// unless one of its arguments is a text or a title.
func (c *Call) changes() bool {
	if c.Opens {
		return slices.ContainsFunc(c.Values, func(v Value) bool { return v.Running || titles[lastName(v.Path)] })
	}
	if len(c.Act) == 0 {
		return slices.ContainsFunc(c.Things, func(h uint32) bool { return payments[h] }) &&
			slices.ContainsFunc(c.Values, func(v Value) bool {
				return slices.ContainsFunc(SplitName(v.Path), func(w string) bool { return paid[w] })
			})
	}
	return !c.reads()
}

// lastName returns the last word of a path.
func lastName(path string) string {
	words := SplitName(path)
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

var (
	titles   = text.Set("title subject body content text description")
	payments = stemmedSet("payment payout refund remittance")
	paid     = text.Set("amount sum total iban account beneficiary payee recipient receiver creditor")
)

// topical reports whether words name the subject of the tool: two of the things in its name, one of exactly two things,
// a mark of its arguments (a word with a digit), or the whole name.
func (c *Call) topical(words []uint32) bool {
	n := Count(words, c.Things)
	return n > 1 || n == 1 && len(c.Things) == 2 || Count(words, c.Marks) > 0 || Has(words, c.Whole)
}

// named is like topical, but a single thing that is only the namespace of the tool's name is not enough: all tools
// of an application have it.
func (c *Call) named(words []uint32) bool {
	return c.topical(words) && (Count(words, c.Things) != 1 || Count(words, c.Space) == 0 ||
		Count(words, c.Marks) > 0 || Has(words, c.Whole))
}

// asked reports whether words name the call: the whole tool; its act and at least half of the
// things in its name; all of the things, if the name has no act; or only the act, if the name has
// no things and the words name a value.
func (c *Call) asked(words []uint32, value bool) bool {
	things, act := Count(words, c.Things), Count(words, c.Act) > 0
	switch {
	case Has(words, c.Whole):
		return true
	case len(c.Act) == 0:
		return len(c.Things) > 0 && things == len(c.Things)
	case len(c.Things) == 0:
		return act && value
	}
	return act && 2*things >= len(c.Things)
}

// deed reports whether words ask for a deed of the call. Vague words count only if the words also
// name a thing in the tool's name.
func (c *Call) deed(words []uint32) bool {
	return Count(words, c.Deeds) > 0 || Count(words, c.Vague) > 0 && Count(words, c.Things) > 0
}

// given returns a hash that stands for the part before the @ of a mail address that the user wrote in full.
func given(address string) uint32 {
	local, _, _ := strings.Cut(address, "@")
	return Hash("\x00given" + strings.Join(SplitName(local), " "))
}

// people returns the user's words that may name a person: all but those of URLs and mail addresses. If words were
// left out of the requests because of their limits, it returns all words of the user.
func (s *Said) people() []uint32 {
	if len(s.Requests) == 0 || len(s.Requests) == maxRequests {
		return s.Words
	}
	var words []uint32
	for _, q := range s.Requests {
		if len(q.Words) == maxAsked {
			return s.Words
		}
		words = append(words, q.Words...)
	}
	return Distinct(words)
}

// mailHost returns a hash that stands for the host of a mail address that the user wrote in full.
func mailHost(address string) uint32 {
	_, host, _ := strings.Cut(address, "@")
	return Hash("\x00mailhost" + host)
}

// owner reports whether the user named the owner of an e-mail address. people, the user's words outside of
// addresses, must have all words of three letters or more before the @, and there must be at least one. If the user
// wrote another address with the same words before the @ in full, the result is false.
func owner(words, people []uint32, address string) bool {
	if Has(words, given(address)) {
		return false
	}
	local, _, _ := strings.Cut(address, "@")
	n := 0
	for _, w := range SplitName(local) {
		if len(w) < 3 {
			continue
		}
		if n++; !Has(people, Hash(Stem(w))) {
			return false
		}
	}
	return n > 0
}

// amounts are words in names of arguments that say how much is returned, not what.
var amounts = text.Set("limit count max min size number num top page offset per days")

// Named reports whether the user's words name where a content came from: its source, or a value in
// the arguments of the call that returned it. The value must name a single thing, because a search
// for an ordinary word returns anything that contains the word.
func (s *Said) Named(source string, args map[string]any) bool {
	if len(s.Words) == 0 {
		return false
	}
	values := ReadValues(args)
	if source != "" {
		values = append(values, readValue("", path.Base(source)))
	}
	return slices.ContainsFunc(values, s.names)
}

// names reports whether the user named a value that identifies a single thing: a name of two words
// or more, a date, an address, a file, or a word that is used as a name in a request.
func (s *Said) names(v Value) bool {
	if v.Prose || len(v.Tokens) == 0 || !v.named(s.Words) || slices.ContainsFunc(SplitName(v.Path), func(w string) bool {
		return amounts[w]
	}) {
		return false
	}
	return v.distinctive() || v.Date != nil || v.address() ||
		slices.ContainsFunc(s.Requests, func(q Ask) bool { return Count(q.Named, v.Tokens) > 0 })
}
