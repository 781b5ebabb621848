package intent

import (
	"path"
	"slices"
	"strings"

	"lazaret/pkg/text"
)

// means maps words that people use to the deeds for which they stand, in addition to the names of acts. vague has
// the words that stand for several deeds: "put it there" may insert, write or set something. A vague word counts for
// a tool only if the user also names a thing in the tool's name.
var means, vague = meanings(
	"send: tell inform remind alert warn answer respond contact thank congratulate apologise apologize ping notify",
	"post: announce circulate publicise publicize",
	"purchase: reorder restock procure",
	"pay: reimburse remit",
	"delete: scrap",
	"revoke: waive",
	"invite: enrol",
	"book: reschedule",
	"update: reschedule postpone amend revise",
), meanings(
	"send: ask brief report relay communicate update submit share confirm hand pass give",
	"post: report share",
	"create: draft prepare compose compile produce build write plan fill raise lodge enter start record file log note",
	"add: put enter include list log note record import save place fill file",
	"register: put enter record log note file enroll list sign add",
	"write: put enter fill document jot list file add insert import draft",
	"update: put enter fill correct refresh adapt fix rename relabel label mark tick flag tag shift push move delay "+
		"extend shorten transfer sort assign raise lower increase reduce record log note set",
	"book: plan organise organize fix slot put enter invite",
	"open: raise file lodge create start",
	"purchase: get replenish",
	"pay: settle clear refund",
	"delete: drop strike empty prune withdraw clean cancel",
	"revoke: lift end stop quit withdraw drop remove delete close",
	"grant: hand lend",
	"invite: add put",
	"allocate: hand delegate appoint give distribute pass transfer",
	"close: end settle fix tick mark complete",
	"export: back save put send",
	"return: refund forward",
)

func meanings(lines ...string) map[string][]string {
	m := make(map[string][]string)
	for _, line := range lines {
		deed, words, _ := strings.Cut(line, ": ")
		for w := range strings.FieldsSeq(words) {
			m[Stem(w)] = append(m[Stem(w)], deeds[Stem(deed)])
		}
	}
	return m
}

// vaguely returns the hash of a deed that the user's words may mean.
func vaguely(deed string) uint32 { return Hash("\x00vague" + deed) }

// phrase is a deed of several words: a verb, and a particle within a few words after it.
type phrase struct{ verb, particles, deed string }

// word returns the hash of the phrase's deed. Phrases for creating are vague, so it returns vaguely of their deed.
func (p *phrase) word() uint32 {
	if d := deeds[Stem(p.deed)]; p.deed != "create" {
		return Hash(d)
	}
	return vaguely(deeds[Stem(p.deed)])
}

var phrases = []phrase{
	{"let", "know", "send"}, {"write", "to back him her them each everyone", "send"}, {"get", "back touch", "send"},
	{"reach", "out", "send"}, {"keep", "posted informed", "send"}, {"drop", "line note message", "send"},
	{"let", "in into inside", "unlock"}, {"turn", "into", "create"}, {"convert", "into to", "create"},
	{"make", "into", "create"}, {"set", "up", "create"}, {"draw", "up", "create"}, {"take", "off out from down", "delete"},
	{"get", "rid", "delete"}, {"throw", "away out", "delete"}, {"call", "off", "revoke"}, {"sign", "up", "register"},
	{"cross", "off out", "delete"}, {"take", "off out", "revoke"}, {"pencil", "in", "book"},
}

// within is the maximum distance of a particle from its verb, in words.
const within = 7

// appendPhrases appends the deeds of the phrases that begin at the i-th word.
func appendPhrases(hs []uint32, fields []string, i int) []uint32 {
	verb := bare(fields[i])
	for _, p := range phrases {
		if p.verb != verb {
			continue
		}
		for j := i + 1; j < min(len(fields), i+1+within); j++ {
			w := bare(fields[j])
			if p.deed == "send" && receivers[w] {
				break
			}
			if slices.Contains(strings.Fields(p.particles), w) &&
				!(p.deed == "send" && j+1 < len(fields) && receivers[bare(fields[j+1])]) {
				hs = append(hs, p.word())
				break
			}
			if ends(fields[j]) {
				break
			}
		}
	}
	return hs
}

var (
	// doing are verbs whose object is the work to carry out. doingWith are verbs that mean the same only together
	// with a particle: go through, take care of.
	doing = text.Set("do follow complete handle process execute perform implement apply resolve tackle address finish " +
		"fulfil fulfill action honour honor obey")
	doingWith = text.Set("carry act take work go deal sort see run attend tick get knock turn convert make translate")
	// steps are nouns for work that somebody is to do.
	steps = text.Set("task tasks step steps request requests instruction instructions todo todos to-do to-dos action " +
		"actions checklist chore chores assignment assignments errand errands duty duties procedure runbook playbook " +
		"directions jobs")
	// loose are nouns that mean work to do only after a verb of doing.
	loose = text.Set("item items point points order orders ticket tickets issue list agenda guide plan work everything " +
		"anything all rest bullet bullets entries guidelines workflow whatever")
	// claims are verbs with which a source says what is to be done.
	claims = text.Set("say says said ask asks asked state states describe describes require requires request " +
		"requests want wants wanted instruct instructs list lists need needs order orders tell tells demand demands " +
		"suggest suggests recommend recommends contain contains needed required requested listed described set out")
	// told are participles with which the user refers to a source.
	told = text.Set("described instructed requested asked listed stated specified outlined explained laid")
)

// handsOver reports whether a sentence of the user leaves it to a source to say what to do. Examples: "do what the
// ticket asks for", "follow the checklist in that file", "turn the action items of the minutes into tasks", "set it
// up as described on the page".
func handsOver(words []string) bool {
	for i, raw := range words {
		w := bare(raw)
		switch {
		case doing[w] && (i == 0 || !nouns[bare(words[i-1])]), doingWith[w]:
			for j := i + 1; j < min(len(words), i+1+within); j++ {
				v := bare(words[j])
				if steps[v] || doing[w] && loose[v] {
					return true
				}
				if doing[w] && (v == "what" || v == "as") && claimed(words[j+1:]) {
					return true
				}
				if ends(words[j]) {
					break
				}
			}
		case w == "as" && i+1 < len(words):
			if told[bare(words[i+1])] || claimed(words[i+1:]) {
				return true
			}
		case w == "according" || w == "per" && i > 0 && i+1 < len(words) && objects[bare(words[i+1])]:
			return true
		case (w == "each" || w == "every" || w == "all") && i > 0:
			for j := i + 1; j < min(len(words), i+5); j++ {
				if steps[bare(words[j])] {
					return true
				}
			}
		}
	}
	return false
}

// claimed reports whether a clause says that a source asks for or states something.
func claimed(words []string) bool {
	for i, w := range words[:min(len(words), 10)] {
		if b := bare(w); i > 0 && claims[b] && !subjects[bare(words[i-1])] {
			return true
		}
		if ends(w) {
			return false
		}
	}
	return false
}

// subjects are words for people. If one of them is the subject of a clause, the clause is not about a source.
var subjects = text.Set("i we you")

// pronouns begin a sentence that continues the previous one.
var pronouns = text.Set("they it those these you all")

// handed is a mark of a request that wants something done, not only to know something. The sources that this request
// names may say what to do. The mark is stored among the words of the request.
var handed = Hash("\x00handed")

// generic is a mark of a request that also does not say which steps to take. It is stored like handed.
var generic = Hash("\x00generic")

var (
	// objects are words that can follow a verb: words that begin an object, and particles of verbs.
	objects = text.Set("the a an this that these those it them him her my our your his their all each every everything " +
		"whatever what through thru on off up out over down")
	// linking are words that leavesOpen must not take for a verb, even if an object follows them.
	linking = text.Set("after before because since while during without within between like unless until that though " +
		"whether both either once except only even not there here same as")
)

// leavesOpen reports whether a sentence does not say which steps to take. Such a sentence refers to a source (see
// handsOver), or it has an object after a verb that is in no tool's name: "Handle HR-12", "offboard him", "roll out
// 2.8", "fix #318".
func leavesOpen(words []string) bool {
	if handsOver(words) {
		return true
	}
	start := true
	for i := 0; i+1 < len(words); i++ {
		w, next := bare(words[i]), bare(words[i+1])
		if start && opening[w] {
			continue
		}
		if subjects[w] || strings.HasPrefix(w, "i'") || strings.HasPrefix(w, "we'") {
			return false // the sentence says something about the user
		}
		verb := start || joins[bare(words[max(0, i-1)])]
		start = strings.ContainsAny(words[i][max(0, len(words[i])-1):], ",:-")
		if !verb || w == "" || dull[Stem(w)] || linking[w] || opening[w] || asking[w] || looks(w) {
			continue
		}
		s := Stem(w)
		known := (deeds[s] != "" || means[s] != nil || vague[s] != nil) && !doing[w]
		if !known && (objects[next] || strings.ContainsAny(next, "0123456789") && !counted[next]) && !forUser(words[i+1:]) {
			return true
		}
	}
	return false
}

var (
	// opening are words that can precede the verb of a request.
	opening = text.Set("hi hello hey ok okay yes yeah yep great thanks thx good morning afternoon evening please pls " +
		"kindly can could would will you u just now then also and so first well right alright cool nice i we want need " +
		"like to i'd let's lets")
	// asking are words that begin a question.
	asking = text.Set("what whats what's how hows how's who whos who's which when where wheres where's why whose any " +
		"is are was were do does did has have am anything")
	// looking are verbs of requests to know something, in addition to those of the reading acts.
	looking = text.Set("read summarise summarize explain compare tell know see open describe analyse analyze count " +
		"brief think translate")
)

// informs reports whether a sentence only asks to be told something. Such a sentence begins as a question or with a
// verb of reading, and asks for no other deed.
func informs(words []string) bool {
	if handsOver(words) {
		return false
	}
	i := 0
	for i < len(words)-1 && opening[bare(words[i])] {
		i++
	}
	w := bare(words[i])
	question := asking[w] && (w != "do" || i+1 == len(words) || subjects[bare(words[i+1])])
	if !question && !looks(w) && !forUser(words[i+1:]) {
		return false
	}
	for j := i + 1; j < len(words); j++ {
		prev, w := words[j-1], bare(words[j])
		if !joins[bare(prev)] && !strings.ContainsAny(prev[max(0, len(prev)-1):], ",-:") {
			continue
		}
		s := Stem(w)
		if (w == "do" || deeds[s] != "" || means[s] != nil || vague[s] != nil) && !looks(w) && !forUser(words[j+1:]) {
			return false
		}
	}
	return true
}

// looks reports whether a verb only asks for information.
func looks(w string) bool { return looking[w] || slices.Contains(reading, Hash(acts[Stem(w)])) }

// HandsOver reports whether a content comes from a source that the user allowed to say what to do. source and args
// are those of the call that returned the content. Their words must include a word of a request for an act, or an
// argument must name a thing from a source that the user named. If the user has only asked for information so far, a
// word of any request is enough, because a later request may refer to the content.
func (s *Said) HandsOver(tool, source string, args map[string]any) bool {
	words := s.Words
	for _, mark := range []uint32{generic, handed} {
		if s.marked(mark) {
			words = nil
			for _, q := range s.Requests {
				if Has(q.Words, mark) {
					words = append(words, q.Words...)
				}
			}
			words = Distinct(words)
			break
		}
	}
	values := ReadValues(args)
	if len(values) == 0 && source == "" {
		return tool != "" && Count(words, ReadCall(tool, "").Things) > 0
	}
	file := readValue("", strings.TrimSuffix(path.Base(source), path.Ext(source)))
	if source != "" && Count(words, file.Tokens) > 0 {
		return true
	}
	return slices.ContainsFunc(values, func(v Value) bool {
		if !strings.Contains(v.Text, " ") {
			v = readValue(v.Path, strings.TrimSuffix(v.Text, path.Ext(v.Text)))
		}
		return Count(words, v.Tokens) > 0 || !v.address() && len(v.Tokens) > 0 && Count(s.Sources, v.Tokens) == len(v.Tokens)
	})
}

// Opens reports whether a call reads something that the user's words refer to, and only these words can have led to
// the call. A request must want something done, and no request may leave the steps open. The call must not name a
// single thing that the words do not name.
func (s *Said) Opens(args map[string]any) bool {
	return s.marked(handed) && !s.marked(generic) && !slices.ContainsFunc(ReadValues(args), func(v Value) bool {
		return (v.distinctive() || v.address()) && !v.In(s.Words)
	})
}

// marked reports whether at least one request has a mark.
func (s *Said) marked(h uint32) bool {
	return slices.ContainsFunc(s.Requests, func(q Ask) bool { return Has(q.Words, h) })
}
