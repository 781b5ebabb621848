package ingest

import (
	"slices"
	"strings"

	"lazaret/pkg/lexical"
	"lazaret/pkg/text"
)

// maxFrame is the maximum number of words before a quotation that say that the user said it.
const maxFrame = 8

// quotes reports whether a note is a whole message of the user, either alone or after words that only report it, such
// as "The user said: …". A part of a message does not count, because the rest may have limited it.
func quotes(content string, said []string) bool {
	note := text.Normalize(content)
	for _, s := range said {
		message := text.Normalize(s)
		frame, ok := strings.CutSuffix(note, message)
		if ok && len(lexical.Words(message)) > 0 && reports(strings.TrimSpace(frame)) {
			return true
		}
	}
	return false
}

// reports reports whether the words before a quotation only say that the user said it.
func reports(frame string) bool {
	if frame == "" {
		return true
	}
	who, ok := strings.CutSuffix(frame, ":")
	if !ok || len(strings.Fields(who)) > maxFrame || len(limitsOf(who)) > 0 || strings.ContainsAny(who, ".!?;:") {
		return false
	}
	return !slices.ContainsFunc(lexical.Words(who), func(t text.Term) bool { return !reporting[t] })
}
