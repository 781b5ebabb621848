package text

import (
	"maps"
	"slices"
)

// Traits are the properties of a kind of carrier that other packages use. All are false for a kind that is not in the
// map traits.
type Traits struct {
	// Distinctive is set if two texts rarely have the same value by chance. So if two texts do have the same value, one
	// was probably copied from the other, or both from a third.
	Distinctive bool
	// ReachesOut is set if the value may be an address outside the project. It is not set for numbers and paths of
	// records, which many requests name.
	ReachesOut bool
	// Personal is set if the value is a secret or personal data. The value is then masked in texts that Lazaret
	// returns.
	Personal bool
	// Spaced is set if people write the value with spaces or dashes.
	Spaced bool
	// Pushed is set if a source that wants to have the value believed may repeat it often.
	Pushed bool
	// Party is set if the value names one person or one account.
	Party bool
}

// traits has an entry for each kind that has traits and does not register itself.
var traits = map[Kind]Traits{
	Email:   {Distinctive: true, ReachesOut: true, Personal: true, Pushed: true, Party: true},
	URL:     {Distinctive: true, ReachesOut: true},
	Host:    {ReachesOut: true, Pushed: true},
	IP:      {Distinctive: true, ReachesOut: true},
	IBAN:    {Distinctive: true, ReachesOut: true, Personal: true, Spaced: true, Pushed: true, Party: true},
	Card:    {Distinctive: true, ReachesOut: true, Personal: true, Spaced: true, Party: true},
	Phone:   {Distinctive: true, ReachesOut: true, Personal: true, Spaced: true},
	HexKey:  {Distinctive: true, Personal: true},
	Secret:  {Distinctive: true, Personal: true},
	Opaque:  {Distinctive: true},
	Handle:  {Distinctive: true, ReachesOut: true, Pushed: true},
	Command: {Distinctive: true, Pushed: true},
}

// finder recognizes the carriers of one kind. Each of them is a single token.
type finder struct {
	kind Kind
	min  int // minimum length of a token, in bytes
	find func(token string) (value string, ok bool)
}

var finders []finder

// register adds a kind of carrier whose values are single tokens (see scanner.token). find returns the canonical form
// of a token, or false if the token is no carrier of this kind. A kind that is registered needs only one file. A kind
// whose values have several tokens is found by a method of scanner.
func register(k Kind, t Traits, shortest int, find func(token string) (value string, ok bool)) {
	traits[k] = t
	finders = append(finders, finder{k, shortest, find})
}

// Traits returns the traits of a kind.
func (k Kind) Traits() Traits { return traits[k] }

// KindsWith returns the kinds whose traits satisfy has, in alphabetical order.
func KindsWith(has func(Traits) bool) []Kind {
	var out []Kind
	for _, k := range slices.Sorted(maps.Keys(traits)) {
		if has(traits[k]) {
			out = append(out, k)
		}
	}
	return out
}
