package ingest

import (
	"slices"
	"unicode/utf8"

	"lazaret/streams"
)

// The entry of a recall repeats texts that are in the ledger already, so that sentinels judge exactly the texts that
// the agent will get. These constants limit their size.
const (
	// recallBytes is the maximum size in bytes of the encoded items of one recall. Candidates that came with the
	// request do not count.
	recallBytes = 64 << 10
	// leastServed is the minimum size in bytes of the served part of a text.
	leastServed = 256
)

// jsonLen returns an upper bound for the size of a text as JSON in bytes, without the quotes, or most if the bound is
// larger.
func jsonLen(s string, most int) int {
	n := 0
	for i := 0; i < len(s) && n < most; i++ {
		n += encoded(s[i])
	}
	return min(n, most)
}

// encoded returns how many bytes a byte of a text takes in JSON at most.
func encoded(b byte) int {
	switch {
	case b == '"', b == '\\', b == '\n', b == '\r', b == '\t':
		return 2
	case b < ' ':
		return 6
	}
	return 1
}

// excerpt returns the longest beginning of a text that takes at most room bytes in JSON.
func excerpt(s string, room int) string {
	for i := range len(s) {
		if room -= encoded(s[i]); room < 0 {
			return cut(s, i)
		}
	}
	return s
}

// after returns a text without its first n bytes. If byte n is within a character, the text begins with that character.
func after(s string, n int) string {
	if n >= len(s) {
		return ""
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[n:]
}

// serving is an item of a recall, and the part of its text that may be served.
type serving struct {
	item    *streams.RecallItem
	text    string
	size    int    // size of the whole text in bytes; 0: unknown
	digest  string // digest of a memory's whole text
	brought bool   // the text came with the request
}

// share sets the texts of a recall's items, as far as room bytes allow. Each text gets an equal share, and what short
// texts leave of theirs is divided among the longer ones. share returns how many items fit, and whether a text was cut
// for lack of room.
func share(all []serving, room int) (fit int, short bool, err error) {
	needs := make([]int, 0, len(all))
	least := 0
	var bare streams.RecallItem
	for i := range all {
		s := &all[i]
		bare = *s.item
		bare.Partial, bare.Size, bare.Digest = true, s.size, s.digest
		size, err := streams.Size(&bare)
		if err != nil {
			return 0, false, err
		}
		need := 0
		if !s.brought {
			need = jsonLen(s.text, room)
		}
		if size+1+least+min(need, leastServed) > room {
			break
		}
		room -= size + 1
		least += min(need, leastServed)
		needs = append(needs, need)
	}
	fit = len(needs)
	level := waterLevel(slices.Clone(needs), room)
	for i, s := range all[:fit] {
		s.item.Content = s.text
		if needs[i] > level {
			s.item.Content = excerpt(s.text, level)
			s.item.Partial, short = true, true
		}
		if s.item.Partial {
			s.item.Size, s.item.Digest = s.size, s.digest
		}
	}
	return fit, short, nil
}

// waterLevel returns the largest number such that the sum of needs is at most room if each larger need is lowered to
// that number.
func waterLevel(needs []int, room int) int {
	slices.Sort(needs)
	for i, n := range needs {
		if level := room / (len(needs) - i); n > level {
			return level
		}
		room -= n
	}
	return room
}
