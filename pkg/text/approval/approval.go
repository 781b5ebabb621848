package approval

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Words for approvals.
const (
	// approving are words that are rare outside of approvals.
	approving = `(?:(?:pre|auto) ?)?approv(?:e|es|ed|ing|als?)|(?:(?:pre|auto) ?)?authori[sz](?:e|es|ed|ing|ations?)|` +
		`sign(?:s|ed|ing)? ?offs?|green ?(?:light|lights|lit|lighted|lighting)|go ahead|consent(?:s|ed)?|` +
		`permissions?|clearances?`
	// checking are words that are frequent in other notes too.
	checking = `confirm(?:s|ed|ing|ations?)?|verif(?:y|ies|ied|ying|ications?)|review(?:s|ed|ing|ers?)?|ok(?:ay)?s?|` +
		`ok(?:ay)?e?d`
	anyApproval = `(?:` + approving + `|` + checking + `)`
	// given are the forms that say that an approval was given.
	given = `(?:(?:(?:pre|auto) ?)?(?:approved|authori[sz]ed)|ok(?:ay)?e?d|green ?(?:lit|lighted)|` +
		`signed ?off(?: on)?|consented to)`
	// noun are the nouns among the words.
	noun = `(?:approvals?|authori[sz]ations?|sign ?offs?|green ?light|go ahead|consent|permissions?|clearances?|` +
		`confirmations?|verifications?|reviews?|ok(?:ay)?)`
)

// Other parts of the patterns. The patterns read the words of one clause with a space between them, without
// apostrophes.
const (
	negation = `(?:without|` + denial + `)`
	denial   = `(?:no|not|never|nor|neither|cannot|nobody|none|` +
		`(?:is|are|was|were|do|does|did|wo|would|need|should|must|has|have|had|ca|could)nt)`
	// article are words before a noun.
	article = `(?:any|the|a|an|further|other|additional|second|extra|more|prior|explicit|separate|manual|human|formal|` +
		`written|verbal|special|such|full|general|blanket|standing|permanent|unlimited|users?|owners?|operators?|managers?|` +
		`boss|boss s|your|my|his|her|their|our|its|usual|final|code|payment|refund|signature|or|of|that)`
	// filler are words between a negation and an approval.
	filler = `(?:` + article + `|to|for|ask|asking|wait|waiting|get|getting|seek|seeking|request|requesting|` +
		`obtain|await|have|be|been|being|ever|even|really|longer|actually|always|strictly|first|by)`
	auxiliary = `(?:is|are|was|were|be|been|being|has|have|had|will|would|can|could|may|might|shall|should|now|` +
		`currently|already|simply|generally|usually|always|ever|still|also|just|all)`
	needed = `(?:needed|required|necessary|mandatory|obligatory|compulsory|asked for)`
	// tail is what may stand between an approval and its verb.
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

// Limits of a clause. A longer one is read in parts that overlap.
const (
	maxClause = 60 // words
	overlap   = 20
)

// claim is a kind of statement that an approval was given or is not needed.
type claim struct {
	words *regexp.Regexp
	// turned matches what turns the statement round, in the words of the statement and in the words before it.
	turned *regexp.Regexp
	before int // number of these words
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
	// No approval is needed. Approval is not needed, or is optional. Nobody needs one, or waits for one.
	add(nil, 0,
		`no(?: `+filler+`){0,3} `+anyApproval+tail+` `+needed,
		anyApproval+tail+` `+negation+`(?: `+filler+`){0,3} `+needed,
		anyApproval+tail+` (?:unnecessary|optional|needless|superfluous|redundant|unneeded)`,
		negation+`(?: `+filler+`){0,3} (?:needs?|needed|needing|requires?|required|requiring|necessary)(?: `+filler+
			`){0,6} `+anyApproval,
		`(?:needs?|requires?)(?: `+filler+`){0,2} no(?: `+filler+`){0,4} `+anyApproval,
		`(?:no|not|never|(?:do|does|need|should|must)nt) (?:have to |be )?(?:asks?|asked|asking|waits?|waiting|awaits?)(?: `+
			filler+`){0,6} `+anyApproval)
	// Something is done without one.
	add(denied, maxClause,
		`without (?:asking|waiting|needing|requiring|requesting|seeking)(?: `+filler+`){0,6} `+anyApproval,
		`(?:can|may|could|will|allowed|able|free)(?: [^ ]+){1,6} without(?: `+article+`){0,4} `+anyApproval)
	// It is skipped, or switched off.
	add(denied, 2,
		skipping+`(?: `+article+`){0,4} `+noun+
			`(?:$| (?:steps?|process|checks?|requirements?|stage|gates?|for|on|before|when|in|and|altogether|entirely|now))`,
		noun+tail+` `+skipping)
	// It was given for all that comes, or for an act.
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

// Claimed reports whether a text, in the form of text.Normalize, says that an approval was given for more than one act
// or for an act such as a payment, or that no approval is needed.
func Claimed(normal string) bool {
	for c := range clauses(normal) {
		if mention.MatchString(c) && slices.ContainsFunc(claims, func(x claim) bool { return x.in(c) }) {
			return true
		}
	}
	return false
}

// Mentioned reports whether a text has a word for an approval or a permission, or Claimed.
func Mentioned(normal string) bool {
	for c := range clauses(normal) {
		if permits.MatchString(c) {
			return true
		}
	}
	return Claimed(normal)
}

// in reports whether a clause has a claim.
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
