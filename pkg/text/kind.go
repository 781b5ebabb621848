package text

import (
	"maps"
	"slices"
)

// Traits are the properties of a kind of carrier that other packages use. A kind that is not in
// traits has none.
type Traits struct {
	// Distinctive is set if two texts rarely share a value by chance, so that a shared value shows
	// where a text came from.
	Distinctive bool
	// ReachesOut is set if the value is an address of someone outside the project. Numbers and
	// paths of records, which many requests name, do not reach out.
	ReachesOut bool
	// Personal is set if the value is a secret or personal data. It is masked in texts that are
	// returned.
	Personal bool
	// Spaced is set if people write the value with spaces or dashes.
	Spaced bool
	// Pushed is set if a source may repeat the value often to make it believed.
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

// finder recognizes carriers of a kind in single tokens.
type finder struct {
	kind Kind
	min  int // minimum length of a token, in bytes
	find func(token string) (value string, ok bool)
}

var finders []finder

// register adds a kind of carrier that is recognized in single tokens (see scanner.token). find
// returns the canonical value. Such a kind needs only one file. Kinds of several tokens are methods
// of scanner.
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
