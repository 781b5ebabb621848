package rulefmt

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/rogpeppe/go-internal/diff"

	"lazaret/pkg/internal/strictyaml"
)

// ruleKeys is the order of a rule's keys. Keys that are not listed come after these.
var ruleKeys = []string{
	"id", "title", "description", "severity", "status", "mode", "tags", "on", "for_each", "when",
	"effect", "on_error", "subject", "subject_id", "message", "false_positives",
}

// celFields are the paths of the values that are CEL expressions. # matches any index and * any name.
var celFields = [][]string{
	{"rules", "#", "for_each"},
	{"rules", "#", "when"},
	{"rules", "#", "subject_id"},
	{"rules", "#", "message"},
	{"exceptions", "#", "when"},
	{"macros", "*"},
	{"signals", "#", "count", "when"},
	{"signals", "#", "count", "key"},
	{"signals", "#", "count", "value"},
	{"signals", "#", "distinct", "when"},
	{"signals", "#", "distinct", "key"},
	{"signals", "#", "distinct", "value"},
	{"signals", "#", "sequence", "key"},
	{"signals", "#", "sequence", "steps", "#", "when"},
}

// errMeaning reports that the file would have a different meaning after formatting. Then the file is left unchanged.
var errMeaning = errors.New("formatting it would change its meaning, so it is left unchanged")

// errUnstable reports that formatting the result again would change it. Then the file is left unchanged.
var errUnstable = errors.New("formatting it twice would change it twice, so it is left unchanged")

// Format returns the canonical form of a rule, pack, groups or test file. name is the file's name in errors.
//
// An expression that does not parse is left unchanged. Format then formats the rest of the file, and also returns an
// error that lists all these expressions. If the file cannot be parsed or uses a notation that is not supported, Format
// returns it unchanged with the error. Errors name file and line.
func Format(name string, src []byte) ([]byte, error) {
	out, err := format(name, src)
	if bytes.Equal(out, src) {
		return out, err
	}
	if again, _ := format(name, out); !bytes.Equal(again, out) {
		return src, fmt.Errorf("%s: %w", name, errUnstable)
	}
	return out, err
}

func format(name string, src []byte) ([]byte, error) {
	doc, err := strictyaml.Parse(name, src)
	if err != nil {
		return src, err
	}
	var decoded any
	if err := doc.Decode(&decoded); err != nil {
		return src, err
	}
	text := strings.ReplaceAll(string(src), "\r\n", "\n")
	if strings.Contains(text, "\r") {
		return src, doc.Errorf(nil, "a carriage return within a line: remove it")
	}
	before, dashes, root, foot, err := readTree(name, strings.Split(strings.TrimSuffix(text, "\n"), "\n"))
	if err != nil {
		return src, err
	}
	var bad []error
	if root != nil {
		walk(root, nil, func(path []any, e *entry) {
			if err := formatField(decoded, path, e); err != nil {
				bad = append(bad,
					doc.Errorf(path, "%s is not a CEL expression and is left unchanged: %w", path[len(path)-1], err))
			}
		})
		tidy(root, nil)
	}
	w := new(writer)
	w.remarks(before, 0)
	if dashes {
		w.line(0, "---")
	}
	if root != nil {
		w.block(root, 0)
	}
	w.remarks(foot, 0)
	out := w.bytes()

	var again any
	after, err := strictyaml.Parse(name, out)
	if err == nil {
		err = after.Decode(&again)
	}
	if err != nil || !same(decoded, again, nil) {
		return src, doc.Errorf(nil, "%w", errMeaning)
	}
	return out, errors.Join(bad...)
}

// Diff returns the changes from a to b as a unified diff. It is empty if there are none.
func Diff(name string, a, b []byte) string {
	return string(diff.Diff(name, a, name+" (formatted)", b))
}

func isCEL(path []any) bool {
	return slices.ContainsFunc(celFields, func(want []string) bool { return matches(path, want) })
}

func matches(path []any, want []string) bool {
	return slices.EqualFunc(path, want, func(step any, want string) bool {
		if name, ok := step.(string); ok {
			return want != "#" && (want == "*" || want == name)
		}
		return want == "#"
	})
}

// walk calls f for every entry of a tree, with the entry's path.
func walk(b *block, path []any, f func([]any, *entry)) {
	for i, e := range b.items {
		var step any = i
		if b.kind == mapBlock {
			step = keyName(e.key)
		}
		at := append(slices.Clip(path), step)
		f(at, e)
		if e.child != nil {
			walk(e.child, at, f)
		}
	}
}

// keyName returns the name of a key as written in a file, without its quotes.
func keyName(key string) string {
	var name string
	if strings.HasPrefix(key, `"`) || strings.HasPrefix(key, "'") {
		if yaml.Unmarshal([]byte(key), &name) == nil {
			return name
		}
	}
	return key
}

// lookup returns the value at a path of a decoded document.
func lookup(v any, path []any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			l, _ := v.([]any)
			if step >= len(l) {
				return nil
			}
			v = l[step]
		}
	}
	return v
}

// formatField formats the value of an entry if the path of the entry is in celFields.
func formatField(decoded any, path []any, e *entry) error {
	if !isCEL(path) {
		return nil
	}
	src, ok := lookup(decoded, path).(string)
	if !ok || strings.TrimSpace(src) == "" {
		return nil
	}
	v := e.value
	if v == nil {
		if e.child == nil || e.child.kind != rawBlock || len(e.child.head) > 0 || e.comment != "" {
			return nil
		}
		v = e.child.value
	}
	lines, err := formatCEL(src)
	if errors.Is(err, errKeep) {
		return nil
	}
	if err != nil {
		return err
	}
	e.child, e.value = nil, scalar(lines, v.comment)
	return nil
}

// scalar returns the lines of an expression as a YAML scalar. It uses the first of three notations that is possible:
// plain, in quotes without escapes, or folded.
func scalar(lines []string, comment string) *value {
	v := &value{step: 2, comment: comment}
	if len(lines) == 1 {
		text := lines[0]
		for _, s := range []struct {
			kind   valueKind
			text   string
			unless string
		}{
			{plainValue, text, ""},
			{quotedValue, `"` + text + `"`, `"\`},
			{quotedValue, `'` + text + `'`, `'`},
		} {
			if !strings.ContainsAny(text, s.unless) && reads(s.text, text) {
				v.kind = s.kind
				v.add(s.text, 0)
				return v
			}
		}
	}
	v.kind = blockValue
	v.add(">-", 0)
	for _, l := range lines {
		v.add(l, 0)
	}
	return v
}

// reads reports whether YAML reads the written scalar as the given text.
func reads(written, text string) bool {
	if c := written[0]; c != '"' && c != '\'' {
		if _, _, key := splitKey(written); key || isDash(written) || strings.ContainsRune("[]{}|>#&*!%@`,?", rune(c)) ||
			strings.Contains(written, ": ") ||
			strings.Contains(written, " #") {
			return false
		}
	}
	var got map[string]any
	return yaml.Unmarshal([]byte("k: "+written+"\n"), &got) == nil && got["k"] == text
}

// tidy puts the keys of rules in order. It moves each comment to the entry before which it is to be written.
func tidy(b *block, path []any) {
	if b.kind == mapBlock && matches(path, []string{"rules", "#"}) {
		rank := func(e *entry) int {
			if i := slices.Index(ruleKeys, keyName(e.key)); i >= 0 {
				return i
			}
			return len(ruleKeys)
		}
		slices.SortStableFunc(b.items, func(a, b *entry) int { return rank(a) - rank(b) })
	}
	for i, e := range b.items {
		if e.child == nil {
			continue
		}
		var step any = i
		if b.kind == mapBlock {
			step = keyName(e.key)
		}
		tidy(e.child, append(slices.Clip(path), step))
		first := &e.child.head
		if e.child.kind != rawBlock {
			first = &e.child.items[0].head
		}
		for len(*first) > 0 && (*first)[0].text == "" {
			*first = (*first)[1:]
		}
		// A comment cannot be between a dash and its value, so it moves in front of the dash.
		if b.kind == seqBlock {
			e.head, *first = append(slices.Clip(e.head), *first...), nil
			if e.child.kind == rawBlock {
				e.value, e.child = e.child.value, nil
			}
		}
	}
}

type writer struct {
	b     bytes.Buffer
	blank bool // a blank line must be written before the next line
}

func (w *writer) line(indent int, text string) {
	if w.blank && w.b.Len() > 0 {
		w.b.WriteByte('\n')
	}
	w.blank = false
	if text != "" {
		w.b.WriteString(strings.Repeat(" ", indent))
	}
	w.b.WriteString(text)
	w.b.WriteByte('\n')
}

func (w *writer) remarks(list []remark, indent int) {
	for _, c := range list {
		if c.text == "" {
			w.blank = true
		} else {
			w.line(indent, c.text)
		}
	}
}

func (w *writer) bytes() []byte { return w.b.Bytes() }

// block writes a block whose lines begin at column col.
func (w *writer) block(b *block, col int) {
	if b.kind == rawBlock {
		w.remarks(b.head, col)
		base := col
		if b.value.kind == flowValue {
			base += 2
		}
		w.value("", b.value, col, base)
		return
	}
	for _, e := range b.items {
		w.remarks(e.head, col)
		w.entry("", b.kind, e, col)
	}
	w.remarks(b.foot, col)
}

// entry writes an entry at column col. prefix is the text before it on its first line: the dashes of the sequences that
// begin there.
func (w *writer) entry(prefix string, kind blockKind, e *entry, col int) {
	at := col - len(prefix)
	if kind == mapBlock {
		prefix += e.key + ":"
	} else {
		prefix += "-"
	}
	switch {
	case e.value != nil:
		w.value(prefix+" ", e.value, at, col+e.value.step)
	case e.child == nil:
		w.line(at, prefix+e.comment)
	case kind == seqBlock && e.child.kind != rawBlock:
		for i, sub := range e.child.items {
			if i == 0 {
				w.entry(prefix+" ", e.child.kind, sub, col+2)
				continue
			}
			w.remarks(sub.head, col+2)
			w.entry("", e.child.kind, sub, col+2)
		}
		w.remarks(e.child.foot, col+2)
	default:
		w.line(at, prefix+e.comment)
		w.block(e.child, col+2)
	}
}

// value writes prefix and a value. The first line begins at column at, the other lines at column base.
func (w *writer) value(prefix string, v *value, at, base int) {
	for i, text := range v.lines {
		if i == 0 {
			text = prefix + text
		}
		if v.comment != "" && (v.kind == blockValue && i == 0 || v.kind != blockValue && i == len(v.lines)-1) {
			text += v.comment
		}
		if i == 0 {
			w.line(at, text)
		} else {
			w.line(max(base+v.extra[i], 0), text)
		}
	}
}

// same reports whether two decoded documents have the same meaning. Expressions are compared by
// their syntax, everything else by value.
func same(a, b any, path []any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			w, ok := y[k]
			if !ok || !same(v, w, append(slices.Clip(path), k)) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !same(x[i], y[i], append(slices.Clip(path), i)) {
				return false
			}
		}
		return true
	case string:
		y, ok := b.(string)
		if ok && x != y && isCEL(path) {
			s, err1 := celTree(x)
			t, err2 := celTree(y)
			return err1 == nil && err2 == nil && s == t
		}
		return ok && x == y
	case float64:
		y, ok := b.(float64)
		return ok && (x == y || math.IsNaN(x) && math.IsNaN(y))
	}
	return reflect.DeepEqual(a, b)
}
