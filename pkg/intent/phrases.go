package intent

import (
	"slices"
	"strings"
)

// means maps words that people use to the deeds that they stand for, in addition to the names of
// acts. vague is for words that stand for several deeds: "put it there" may insert, write or set
// something. A vague word counts for a tool only if the user also names a thing in the tool's name.
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

// word returns the hash of the phrase's deed. The deed of making something is vague.
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
	// doing are verbs whose object is the work to carry out. doingWith do the same together with a
	// particle: go through, take care of.
	doing = set("do follow complete handle process execute perform implement apply resolve tackle address finish fulfil " +
		"fulfill action honour honor obey")
	doingWith = set("carry act take work go deal sort see run attend tick get knock turn convert make translate")
	// steps are nouns for work that someone is to do.
	steps = set("task tasks step steps request requests instruction instructions todo todos to-do to-dos action actions " +
		"checklist chore chores assignment assignments errand errands duty duties procedure runbook playbook directions " +
		"jobs")
	// loose are nouns that mean such work only after a verb in doing.
	loose = set("item items point points order orders ticket tickets issue list agenda guide plan work everything " +
		"anything all rest bullet bullets entries guidelines workflow whatever")
	// claims are verbs with which a source says what is to be done.
	claims = set("say says said ask asks asked state states describe describes require requires request requests want " +
		"wants wanted instruct instructs list lists need needs order orders tell tells demand demands suggest suggests recommend " +
		"recommends contain contains needed required requested listed described set out")
	// told are participles with which the user refers to a source.
	told = set("described instructed requested asked listed stated specified outlined explained laid")
)

// handsOver reports whether a sentence of the user leaves it to a source to say what is to be done:
// "do what the ticket asks for", "follow the checklist in that file", "turn the action items of the
// minutes into tasks", "set it up as described on the page".
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
		case w == "according" || w == "per" && i > 0:
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

// claimed reports whether a clause says that a source says something.
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

// subjects are words for people who ask for something and are not sources.
var subjects = set("i we you")

// handed is a marker among the words of a request that leaves its steps to a source.
var handed = Hash("\x00handed")

// pronouns begin a sentence that continues the previous one.
var pronouns = set("they it those these you all")

// HandsOver reports whether the user named the source of a content (see Named) in a request that
// leaves its steps to the source.
func (s *Said) HandsOver(source string, args map[string]any) bool {
	part := &Said{}
	for _, q := range s.Requests {
		if Has(q.Words, handed) {
			part.Requests = append(part.Requests, q)
			part.Words = append(part.Words, q.Words...)
		}
	}
	part.Words = Distinct(part.Words)
	return part.Named(source, args)
}
