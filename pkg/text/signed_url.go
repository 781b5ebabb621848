package text

import (
	"iter"
	"net/url"
	"strings"
)

// SignedURLs yields the URLs in s that grant access by a signature in their query, with their hosts: links to objects
// in a store (X-Amz-Signature, X-Goog-Signature, sig), signed requests and the like. Such a URL works for everybody
// who has it. Hosts are in lower case and without a port. A URL that is a parameter of another one is yielded too.
func SignedURLs(s string) iter.Seq2[string, string] {
	return func(yield func(link, host string) bool) { signedURLs(s, maxDepth, yield) }
}

func signedURLs(s string, depth int, yield func(link, host string) bool) bool {
	for at := 0; ; {
		i := strings.Index(s[at:], "://")
		if i < 0 {
			return true
		}
		start := at + i
		for start > at && (isAlnum(s[start-1]) || s[start-1] == '+') {
			start--
		}
		end := at + i + len("://")
		for end < len(s) && !endsURL(s[end]) {
			end++
		}
		link := trimURL(s[start:end])
		at = end
		authority, tail := link[strings.Index(link, "://")+3:], ""
		if j := strings.IndexAny(authority, "/?#"); j >= 0 {
			authority, tail = authority[:j], authority[j:]
		}
		host, _ := splitPort(strings.ToLower(authority[strings.LastIndexByte(authority, '@')+1:]))
		if host != "" && signed(tail) && !yield(link, strings.TrimRight(host, ".")) {
			return false
		}
		// A URL may be a parameter of another one.
		if plain := decodePercent(tail); depth > 0 && (plain != tail || strings.Contains(tail, "://")) &&
			!signedURLs(plain, depth-1, yield) {
			return false
		}
	}
}

// minSignature is the length of the shortest signatures: an MD5 or a SHA-1 in base64.
const minSignature = 22

// signed reports whether the query in the part of a URL after its authority has a signature.
func signed(tail string) bool {
	tail, _, _ = strings.Cut(tail, "#")
	_, query, _ := strings.Cut(tail, "?")
	for p := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(p, "=")
		if plain, err := url.QueryUnescape(value); err == nil {
			value = plain
		}
		if name = strings.ToLower(name); (name == "sig" || strings.HasSuffix(name, "signature")) &&
			len(value) >= minSignature && !strings.Contains(value, " ") {
			return true
		}
	}
	return false
}
