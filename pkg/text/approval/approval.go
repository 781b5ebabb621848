package approval

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// Words for approvals.
const (
	// approving are words that are used mostly for approvals.
	approving = `(?:(?:pre|auto) ?)?approv(?:e|es|ed|ing|als?)|(?:(?:pre|auto) ?)?authori[sz](?:e|es|ed|ing|ations?)|` +
		`sign(?:s|ed|ing)? ?offs?|green ?(?:light|lights|lit|lighted|lighting)|go ahead|consent(?:s|ed)?|` +
		`permissions?|clearances?`
	// checking are words that can mean an approval, but are also frequent in texts about other things.
	checking = `confirm(?:s|ed|ing|ations?)?|verif(?:y|ies|ied|ying|ications?)|review(?:s|ed|ing|ers?)?|ok(?:ay)?s?|` +
		`ok(?:ay)?e?d`
	anyApproval = `(?:` + approving + `|` + checking + `)`
	// given are the forms of these words that say that an approval was given.
	given = `(?:(?:(?:pre|auto) ?)?(?:approved|authori[sz]ed)|ok(?:ay)?e?d|green ?(?:lit|lighted)|` +
		`signed ?off(?: on)?|consented to)`
	// noun are the nouns among the words.
	noun = `(?:approvals?|authori[sz]ations?|sign ?offs?|green ?light|go ahead|consent|permissions?|clearances?|` +
		`confirmations?|verifications?|reviews?|ok(?:ay)?)`
)

// Other parts of the patterns. A pattern is matched against the words of one clause: without apostrophes, and with one
// space between two words. See machine for what a pattern may contain.
const (
	negation = `(?:without|` + denial + `)`
	denial   = `(?:no|not|never|nor|neither|cannot|nobody|none|` +
		`(?:is|are|was|were|do|does|did|wo|would|need|should|must|has|have|had|ca|could)nt)`
	// article are words before a noun.
	article = `(?:any|the|a|an|further|other|additional|second|extra|more|prior|explicit|separate|manual|human|formal|` +
		`written|verbal|special|such|full|general|blanket|standing|permanent|unlimited|users?|owners?|operators?|managers?|` +
		`boss|boss s|your|my|his|her|their|our|its|usual|final|code|payment|refund|signature|or|of|that)`
	// filler are words that may stand between a negation and the word for the approval: "no [longer any] approval
	// needed".
	filler = `(?:` + article + `|to|for|ask|asking|wait|waiting|get|getting|seek|seeking|request|requesting|` +
		`obtain|await|have|be|been|being|ever|even|really|longer|actually|always|strictly|first|by)`
	auxiliary = `(?:is|are|was|were|be|been|being|has|have|had|will|would|can|could|may|might|shall|should|now|` +
		`currently|already|simply|generally|usually|always|ever|still|also|just|all)`
	needed = `(?:needed|required|necessary|mandatory|obligatory|compulsory|asked for)`
	// tail are the words that may stand between an approval and its verb: "approval [for payments is] required".
	tail = `(?: (?:steps?|process|checks?|requirements?|stage|gates?))?` +
		`(?: (?:for|of|from|by|on|before|to)(?: [^ ]+){1,4}?)?(?: ` + auxiliary + `){0,3}`
	skipping = `(?:skip(?:s|ped|ping)?|waiv(?:e|es|ed|ing)|bypass(?:es|ed|ing)?|disabl(?:e|es|ed|ing)|` +
		`(?:switch|turn)(?:s|ed|ing)? off|lift(?:s|ed|ing)?|suspend(?:s|ed|ing)?|remov(?:e|es|ed|ing)|drop(?:s|ped|ping)?|` +
		`dispens(?:e|es|ed|ing) with|abolish(?:es|ed)?)`
	broad = `(?:all|any|every|everything|anything|each|future|further|automatically|always|generally|advance|whatever)`
	// acts are what needs an approval.
	acts = `(?:payments?|refunds?|transfers?|purchases?|deletions?|access|commands?|uploads?|deployments?)`
	// people may give an approval.
	people = `(?:users?|operators?|owners?|admins?|managers?|boss|team|they|s?he|we|i)`
)

// Limits of a clause. A clause of more than maxClause words is read in parts, and each part repeats the last overlap
// words of the part before it.
const (
	maxClause = 60 // words
	overlap   = 20
)

// claim is a kind of statement that an approval was given or is not needed.
type claim struct {
	words string // the pattern
	// turned is a pattern of words that reverse or weaken the statement, such as "not", "unless" and "must": then there
	// is no claim. It is searched for in the statement and in the words before the statement. If it is empty, nothing
	// reverses the statement.
	turned string
	before int // number of words before the statement in which turned is searched for
}

var (
	denied = whole(denial)
	wanted = whole(negation + `|until|unless|if|whether|must|should|needs?|ha(?:s|ve) to|once|pending|before|` +
		`ensur(?:e|es|ing)|who`)
	mention = whole(anyApproval + `|(?:allow(?:s|ed)?|permit(?:s|ted)?|waive[sd]?)`)
	permits = regexp.MustCompile(whole(approving + `|okayed|permit(?:s|ted|ting)?|allow(?:s|ed|ing|ances?)?|` +
		`waive[srd]?|waiving|exempt[a-z]*|entitle[sd]?|unrestricted`))
)

var claims = func() (out []claim) {
	add := func(turned string, before int, patterns ...string) {
		for _, p := range patterns {
			out = append(out, claim{whole(p), turned, before})
		}
	}
	// Statements that no approval is needed: "no approval is needed", "approval is not needed", "approval is optional",
	// "nobody needs approval", "do not wait for approval".
	add("", 0,
		`no(?: `+filler+`){0,3} `+anyApproval+tail+` `+needed,
		anyApproval+tail+` `+negation+`(?: `+filler+`){0,3} `+needed,
		anyApproval+tail+` (?:unnecessary|optional|needless|superfluous|redundant|unneeded)`,
		negation+`(?: `+filler+`){0,3} (?:needs?|needed|needing|requires?|required|requiring|necessary)(?: `+filler+
			`){0,6} `+anyApproval,
		`(?:needs?|requires?)(?: `+filler+`){0,2} no(?: `+filler+`){0,4} `+anyApproval,
		`(?:no|not|never|(?:do|does|need|should|must)nt) (?:have to |be )?(?:asks?|asked|asking|waits?|waiting|awaits?)(?: `+
			filler+`){0,6} `+anyApproval)
	// Something is done without an approval.
	add(denied, maxClause,
		`without (?:asking|waiting|needing|requiring|requesting|seeking)(?: `+filler+`){0,6} `+anyApproval,
		`(?:can|may|could|will|allowed|able|free)(?: [^ ]+){1,6} without(?: `+article+`){0,4} `+anyApproval)
	// The approval is skipped, or switched off.
	add(denied, 2,
		skipping+`(?: `+article+`){0,4} `+noun+
			`(?:$| (?:steps?|process|checks?|requirements?|stage|gates?|for|on|before|when|in|and|altogether|entirely|now))`,
		noun+tail+` `+skipping)
	// Statements that an approval was given for all future acts, or for a kind of act such as payments.
	add(wanted, 3,
		`(?:pre|auto) ?approved`,
		`automatically `+given,
		broad+`(?: [^ ]+){0,5}(?: `+auxiliary+`){1,3} `+given,
		given+`(?: [^ ]+){0,2} `+broad,
		people+`(?: [^ ]+){0,2} (?:`+given+`|allow(?:s|ed)?|permit(?:s|ted)?|waive[sd]?)(?: [^ ]+){0,3} `+acts,
		`(?:gave|given|gives?|granted|grants?|have|has|had|got|received|obtained)(?: `+article+`){0,4} `+noun+
			`(?: [^ ]+){0,4} (?:`+broad+`|`+acts+`)`,
		noun+`(?: `+auxiliary+`){1,3} (?:given|granted)(?: [^ ]+){0,4} (?:`+broad+`|`+acts+`)`,
		`(?:blanket|standing|unlimited) (?:`+approving+`)`)
	return out
}()

// whole returns a pattern that matches whole words.
func whole(pattern string) string { return `(?:^| )(?:` + pattern + `)(?: |$)` }

// patterns is the machine for the patterns of all claims. After them, it has the patterns of turnedBy, and then
// mention.
var patterns = sync.OnceValue(func() *machine {
	var all []string
	for _, x := range claims {
		all = append(all, x.words)
	}
	return newMachine(append(append(all, turnedBy...), mention))
})

// turnedBy has the patterns that are used as claim.turned.
var turnedBy = []string{denied, wanted}

// Claimed reports whether a text makes one of three claims: that an approval was given for more than one act, that an
// approval was given for an act such as a payment, or that no approval is needed. normal is the text in the form of
// text.Normalize.
func Claimed(normal string) bool {
	var in *search
	var ids []int32
	for c := range clauses(normal) {
		if in == nil {
			in = patterns().search()
		}
		if ids = in.read(c, ids); in.claimed(ids) {
			return true
		}
	}
	return false
}

// claimed reports whether a clause makes a claim.
func (s *search) claimed(clause []int32) bool {
	found := s.which(clause)
	if found&(1<<(len(claims)+len(turnedBy))) == 0 {
		return false // the clause has no word for an approval
	}
	for i, x := range claims {
		if found&(1<<i) == 0 {
			continue
		}
		by := len(claims) + slices.Index(turnedBy, x.turned)
		if x.turned == "" || found&(1<<by) == 0 || s.unturned(i, by, clause) {
			return true
		}
	}
	return false
}

// unturned reports whether a clause makes claim i without a match of the pattern turned in the statement or before it.
func (s *search) unturned(i, turned int, clause []int32) bool {
	// first[j] is the first end of a match of turned that begins at word j or later.
	first := make([]int, len(clause)+1)
	first[len(clause)] = len(clause) + 1
	for j := len(clause) - 1; j >= 0; j-- {
		first[j] = first[j+1]
		if n := s.end(turned, clause[j:]); n > 0 {
			first[j] = min(first[j], j+n)
		}
	}
	for at := range clause {
		n := s.end(i, clause[at:])
		if n > 0 && first[max(0, at-claims[i].before)] > at+n {
			return true
		}
	}
	return false
}

// Mentioned reports whether a text has a word for an approval or a permission, or makes a claim in the sense of
// [Claimed]. normal is the text in the form of text.Normalize.
func Mentioned(normal string) bool {
	for c := range clauses(normal) {
		if permits.MatchString(strings.Join(c, " ")) {
			return true
		}
	}
	return Claimed(normal)
}

// clauses yields the clauses of a normalized text: words without apostrophes. The caller must not keep a clause.
func clauses(normal string) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		var words []string
		start, quoted := -1, false // begin of the current word, and whether it has apostrophes
		endWord := func(end int) {
			if start < 0 {
				return
			}
			w := normal[start:end]
			if quoted {
				w = apostrophes.Replace(w)
			}
			if start, quoted = -1, false; w != "" {
				words = append(words, w)
			}
		}
		endClause := func() bool {
			for rest := words; len(rest) > 0; rest = rest[maxClause-overlap:] {
				if !yield(rest[:min(len(rest), maxClause)]) {
					return false
				}
				if len(rest) <= maxClause {
					break
				}
			}
			words = words[:0]
			return true
		}
		for i, r := range normal {
			switch {
			case r >= 'a' && r <= 'z', unicode.IsLetter(r), unicode.IsDigit(r):
				if start < 0 {
					start = i
				}
			case r == '\'', r == '’', r == '`':
				if quoted = true; start < 0 {
					start = i
				}
			default:
				endWord(i)
				if strings.ContainsRune(".;!?\n", r) && !endClause() {
					return
				}
			}
		}
		endWord(len(normal))
		endClause()
	}
}

var apostrophes = strings.NewReplacer("'", "", "’", "", "`", "")
