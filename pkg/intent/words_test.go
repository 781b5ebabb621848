package intent

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lazaret/pkg/text"
)

// The words of arguments are read one by one, and the rest is not read once maxArgs of them are known. That gives the
// same as a list of all words.
func TestArgumentsAreReadAsAListOfTheirWords(t *testing.T) {
	word := rapid.SampledFrom([]string{"the", "a", "I", "do", "transfer", "Invoice", "4711", "x1", "é", "bill-7731",
		"sent_by", "accounts", "12.50", "."})
	rapid.Check(t, func(rt *rapid.T) {
		words := rapid.SliceOfN(word, 0, 12).Draw(rt, "words")
		for i := range rapid.IntRange(0, 80).Draw(rt, "more") {
			words = append(words, "word"+strings.Repeat("z", i%9)+string(rune('a'+i%26)))
		}
		s := strings.Join(words, rapid.SampledFrom([]string{" ", "\n", ", "}).Draw(rt, "between"))
		norm := text.Normalize(s)
		got, want := readValue("p", s), readValueOfList("p", s, strings.FieldsFunc(norm, NotWord))
		got.Date = nil
		if !reflect.DeepEqual(got, want) {
			rt.Fatalf("%q:\n%+v, want\n%+v", s, got, want)
		}
		var args, marks []uint32
		for _, w := range strings.FieldsFunc(norm, NotWord) {
			st := Stem(w)
			if len(st) < 3 || dull[st] || len(args) == maxArgs {
				continue
			}
			args = append(args, Hash(st))
			if len(st) >= 4 && strings.ContainsAny(st, "0123456789") {
				marks = append(marks, Hash(st))
			}
		}
		c := ReadCall("pay", norm)
		if !reflect.DeepEqual(c.Args, Distinct(args)) || !reflect.DeepEqual(c.Marks, Distinct(marks)) {
			rt.Fatalf("%q: %v and %v, want %v and %v", norm, c.Args, c.Marks, args, marks)
		}
	})
}

// readValueOfList is like readValue, for a value that is no date.
func readValueOfList(path, s string, words []string) Value {
	x := Value{Path: path, Text: s, Prose: len(words) > maxNameLike}
	small := 0
	for _, w := range words {
		if dull[w] && len(w) > 1 {
			small++
		}
		st := Stem(w)
		digit := strings.ContainsAny(st, "0123456789")
		if len(st) < 2 && !digit || dull[st] || len(x.Tokens) == maxArgs {
			continue
		}
		x.Tokens = append(x.Tokens, Hash(st))
		if digit && len(st) >= 4 {
			x.Marks++
			x.marks = append(x.marks, Hash(st))
		}
	}
	x.Running = x.Prose || len(words) >= 5 && small >= 2 || len(words) >= 4 && strings.HasSuffix(s, ".")
	x.Tokens = Distinct(x.Tokens)
	return x
}
