package approval

import (
	"regexp"
	"slices"
	"strings"
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
// space between two words.
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
	words *regexp.Regexp
	// turned matches words that reverse or weaken the statement, such as "not", "unless" and "must": then there is no
	// claim. It is searched for in the statement and in the words before the statement. If it is nil, nothing reverses
	// the statement.
	turned *regexp.Regexp
	before int // number of words before the statement in which turned is searched for
}

var (
	denied = whole(denial)
	wanted = whole(negation + `|until|unless|if|whether|must|should|needs?|ha(?:s|ve) to|once|pending|before|` +
		`ensur(?:e|es|ing)|who`)
	mention = whole(anyApproval + `|(?:allow(?:s|ed)?|permit(?:s|ted)?|waive[sd]?)`)
	permits = whole(approving + `|okayed|permit(?:s|ted|ting)?|allow(?:s|ed|ing|ances?)?|waive[srd]?|waiving|` +
		`exempt[a-z]*|entitle[sd]?|unrestricted`)
)

var claims = func() (out []claim) {
	add := func(turned *regexp.Regexp, before int, patterns ...string) {
		for _, p := range patterns {
			out = append(out, claim{whole(p), turned, before})
		}
	}
	// Statements that no approval is needed: "no approval is needed", "approval is not needed", "approval is optional",
	// "nobody needs approval", "do not wait for approval".
	add(nil, 0,
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

// whole compiles a pattern of whole words.
func whole(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`(?:^| )(?:` + pattern + `)(?: |$)`)
}

// Claimed reports whether a text makes one of three claims: that an approval was given for more than one act, that an
// approval was given for an act such as a payment, or that no approval is needed. normal is the text in the form of
// text.Normalize.
func Claimed(normal string) bool {
	for c := range clauses(normal) {
		if mention.MatchString(c) && slices.ContainsFunc(claims, func(x claim) bool { return x.in(c) }) {
			return true
		}
	}
	return false
}

// Mentioned reports whether a text has a word for an approval or a permission, or makes a claim in the sense of
// [Claimed]. normal is the text in the form of text.Normalize.
func Mentioned(normal string) bool {
	for c := range clauses(normal) {
		if permits.MatchString(c) {
			return true
		}
	}
	return Claimed(normal)
}

// in reports whether a clause makes the claim x.
func (x claim) in(clause string) bool {
	for from := 0; from < len(clause); {
		at := x.words.FindStringIndex(clause[from:])
		if at == nil {
			return false
		}
		start, end := from+at[0], from+at[1]
		if x.turned == nil {
			return true
		}
		before := strings.Fields(clause[:start])
		before = append(before[max(0, len(before)-x.before):], clause[start:end])
		if !x.turned.MatchString(strings.Join(before, " ")) {
			return true
		}
		next := strings.IndexByte(clause[start+1:], ' ')
		if next < 0 {
			return false
		}
		from = start + 1 + next
	}
	return false
}

// clauses yields the clauses of a normalized text: words without apostrophes, with a space between them.
func clauses(normal string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for c := range strings.FieldsFuncSeq(normal, func(r rune) bool { return strings.ContainsRune(".;!?\n", r) }) {
			c = strings.Map(func(r rune) rune {
				switch {
				case r == '\'' || r == '’' || r == '`':
					return -1
				case !unicode.IsLetter(r) && !unicode.IsDigit(r):
					return ' '
				}
				return r
			}, c)
			words := strings.Fields(c)
			for len(words) > maxClause {
				if !yield(strings.Join(words[:maxClause], " ")) {
					return
				}
				words = words[maxClause-overlap:]
			}
			if !yield(strings.Join(words, " ")) {
				return
			}
		}
	}
}
