package text

import "strings"

// An access key of AWS has two parts. The access key ID (AKIA…, ASIA…) is an identifier: every signed URL has it in its
// parameter X-Amz-Credential, and nobody can sign a request with it alone. The secret access key has 40 characters and
// no prefix. So the ID is a carrier of the kind Secret only if the content also has a secret access key. Otherwise it
// is Opaque. A secret access key in a content without an ID is found only by the name in front of it.

const (
	awsID  = 20 // length of an access key ID
	awsKey = 40 // length of a secret access key

	// Kinds of the candidates, which are runs with the form of an ID or of a secret access key. pairAWS replaces the
	// kinds when the whole content has been read.
	keyID    Kind = "aws-id"
	keyPart  Kind = "aws-key"
	maxPairs      = 16 // candidates of each kind that are kept
)

// awsKeys are the candidates in one content.
type awsKeys struct{ ids, keys []Carrier }

func (k *awsKeys) add(kind Kind, value, via string) {
	list := &k.ids
	if kind == keyPart {
		list = &k.keys
	}
	if len(*list) < maxPairs {
		*list = append(*list, Carrier{Kind: kind, Value: strings.Clone(value), Via: via})
	}
}

// pairAWS adds the access key IDs and the secret access keys of the content.
func (cs *carrierSet) pairAWS() {
	k := cs.aws
	cs.aws = awsKeys{}
	pair := len(k.ids) > 0 && len(k.keys) > 0
	for _, c := range k.ids {
		if pair {
			cs.add(Secret, masked(c.Value, len("AKIA"), 0), c.Via)
		} else {
			cs.add(Opaque, c.Value, c.Via)
		}
	}
	if !pair {
		return
	}
	for _, c := range k.keys {
		cs.add(Secret, masked(c.Value, 0, 0), c.Via)
	}
}

// pairMarks gives the candidates in marks their kinds, as pairAWS does for carriers. It drops secret access keys if
// there is no ID.
func pairMarks(marks []Span) []Span {
	ids, keys := false, false
	for _, m := range marks {
		ids, keys = ids || m.Kind == string(keyID), keys || m.Kind == string(keyPart)
	}
	out := marks[:0]
	for _, m := range marks {
		switch Kind(m.Kind) {
		case keyID:
			m.Kind = string(Opaque)
			if keys {
				m.Kind = string(Secret)
			}
		case keyPart:
			if !ids {
				continue
			}
			m.Kind = string(Secret)
		}
		out = append(out, m)
	}
	return out
}

// HasAccessKeyID reports whether s has an access key ID of AWS.
func HasAccessKeyID(s string) bool {
	for i := 0; i+awsID <= len(s); i++ {
		if (i == 0 || !isAlnum(s[i-1])) && isKeyID(s[i:]) && (i+awsID == len(s) || !isAlnum(s[i+awsID])) {
			return true
		}
	}
	return false
}

// isKeyID reports whether s begins with an access key ID.
func isKeyID(s string) bool {
	if len(s) < awsID || s[:4] != "AKIA" && s[:4] != "ASIA" {
		return false
	}
	for i := 4; i < awsID; i++ {
		if tokenClass[s[i]]&(inUpper|inDigit) == 0 {
			return false
		}
	}
	return true
}

// isKeyPart reports whether s has the form of a secret access key. Digests in hex and paths do not.
func isKeyPart(s string) bool {
	if len(s) != awsKey || s[0] == '/' {
		return false
	}
	classes := uint16(0)
	for i := range len(s) {
		c := tokenClass[s[i]]
		if c&(inLetters|inDigit|inSlash|inPlus) == 0 {
			return false
		}
		classes |= c
	}
	return classes&inUpper != 0 && classes&inLower != 0 && classes&inDigit != 0
}

// awsWithin keeps the access key IDs and the candidates for secret access keys in s. at is the position of s in the
// text, or -1 if s was decoded.
func (sc *scanner) awsWithin(s string, at int) {
	keep := func(kind Kind, from, to int) {
		if at < 0 {
			sc.keep(kind, s[from:to])
		} else {
			sc.keepAt(kind, s[from:to], at+from, at+to)
		}
	}
	for i := 0; i < len(s); {
		start := i
		for i < len(s) && (isAlnum(s[i]) || s[i] == '+' || s[i] == '/') {
			i++
		}
		run := s[start:i]
		switch {
		case i == start:
			i++
			continue
		case len(run) < awsID:
			continue
		case isKeyPart(run):
			keep(keyPart, start, i)
			if keyNamed(s[:start]) || at > 0 && keyNamed(sc.s[:at+start]) {
				sc.keepKey(run, at, start)
			}
			continue
		}
		for from := start; from+awsID <= i; from++ {
			if s[from] != 'A' || !isKeyID(s[from:i]) {
				continue
			}
			keep(keyID, from, from+awsID)
			// A secret access key may follow directly, or after one separator.
			key := from + awsID
			if key < i && s[key] == '/' {
				key++
			}
			if to := key + awsKey; to <= i && isKeyPart(s[key:to]) && (to == i || s[to] == '/') {
				keep(keyPart, key, to)
			}
			from += awsID - 1
		}
		for part := start; part < i; { // a secret access key without slashes as an element of a path
			to := part
			for to < i && s[to] != '/' {
				to++
			}
			if to-part == awsKey && isKeyPart(s[part:to]) {
				keep(keyPart, part, to)
			}
			part = to + 1
		}
	}
}

// keepKey keeps a secret access key that needs no ID, because its name is in front of it. at is as in awsWithin, and
// start is the key's offset in s.
func (sc *scanner) keepKey(key string, at, start int) {
	if value := masked(key, 0, 0); at < 0 {
		sc.keep(Secret, value)
	} else {
		sc.keepAt(Secret, value, at+start, at+start+len(key))
	}
}

// keyNames are ends of names of secret access keys, without separators.
var keyNames = []string{"secretaccesskey", "secretkey", "awssecret"}

// keyNamed reports whether the text before a value ends with the name of a secret access key.
func keyNamed(before string) bool {
	var name [24]byte
	n := len(name)
	for i := len(before) - 1; i >= 0 && n > 0 && len(before)-i < 40; i-- {
		switch c := before[i]; {
		case tokenClass[c]&inLetters != 0:
			n--
			name[n] = c | 0x20
		case c == '\n' || tokenClass[c]&inDigit != 0:
			i = 0
		}
	}
	for _, k := range keyNames {
		if strings.HasSuffix(string(name[n:]), k) {
			return true
		}
	}
	return false
}
