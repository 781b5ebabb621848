package rulefmt

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/debug"
	"cel.dev/cel-go/parser"
)

// celWidth is the maximum width of a line of an expression, in characters and without the indentation. A longer
// expression is broken into lines.
const celWidth = 120

// celParser does not expand macros: has(a.b) and l.exists(x, x) stay calls. So two expressions have
// the same syntax tree only if they have the same calls.
var celParser = sync.OnceValues(func() (*parser.Parser, error) {
	return parser.NewParser(parser.EnableIdentEscapeSyntax(true))
})

// celTree returns the syntax tree of an expression as text. Two expressions that differ only in spaces and unnecessary
// parentheses have the same tree.
func celTree(src string) (string, error) {
	p, err := celParser()
	if err != nil {
		return "", err
	}
	tree, bad := p.Parse(common.NewTextSource(src))
	if found := bad.GetErrors(); len(found) > 0 {
		at := ""
		if lines := strings.Split(src, "\n"); len(lines) > 1 {
			at = fmt.Sprintf(" in line %d of it", found[0].Location.Line())
		}
		what, _, _ := strings.Cut(found[0].Message, " expecting ")
		return "", fmt.Errorf("%s at character %d%s", what, found[0].Location.Column()+1, at)
	}
	return debug.ToDebugString(tree.Expr()), nil
}

// errKeep says that the layout of an expression stays as it is.
var errKeep = errors.New("kept as it is")

// formatCEL lays an expression out on one line, or on several if it is long and has operators to break it at. Tokens
// stay the same, except that double quotes become single ones where possible. The function Unparse of CEL is not used,
// because it removes raw strings, comments and parentheses that explain the expression. formatCEL returns errKeep for
// an expression with comments or with line breaks in strings. It returns another error if src does not parse.
func formatCEL(src string) ([]string, error) {
	tree, err := celTree(src)
	if err != nil {
		return nil, err
	}
	toks, ok := lexCEL(src)
	if !ok {
		return nil, errKeep
	}
	l := &layout{toks: toks}
	l.link()
	lines := []string{l.text(0, len(toks))}
	if utf8.RuneCountInString(lines[0]) > celWidth && l.breakable() {
		l.put(0, len(toks), 0, 0)
		lines = append(slices.Clip(l.lines), l.cur)
	}
	if again, err := celTree(strings.Join(lines, "\n")); err != nil || again != tree {
		return nil, errKeep
	}
	return lines, nil
}

type celKind int

const (
	celWord   celKind = iota // identifiers and literals
	celOpen                  // ( [ {
	celClose                 // ) ] }
	celUnary                 // ! and the sign
	celBinary                // binary operators, and the two signs ? and : of a conditional
	celComma
	celColon // of a map or message
	celDot
)

type celToken struct {
	text  string
	kind  celKind
	space bool // a space precedes it
	match int  // index of the matching closing bracket
}

var celLexeme = regexp.MustCompile(`^(?s:` +
	`(?P<string>[bB]?(?:[rR](?:""".*?"""|'''.*?'''|"[^"\n\r]*"|'[^'\n\r]*')` +
	`|"""(?:\\.|[^\\])*?"""|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^\\"\n\r])*"|'(?:\\.|[^\\'\n\r])*'))` +
	`|(?P<number>0x[0-9a-fA-F]+[uU]?|(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[uU]?)` +
	"|(?P<name>[A-Za-z_][A-Za-z0-9_]*|`[^`\n]+`)" +
	`|(?P<op>==|!=|<=|>=|&&|\|\||[-+*/%<>!?:,.()\[\]{}])` +
	`)`)

// lexCEL returns the tokens of an expression. src must parse. ok is false if a layout that is made from the tokens
// would lose a part of the expression.
func lexCEL(src string) (toks []celToken, ok bool) {
	names := celLexeme.SubexpNames()
	var ternaries []int // for each open bracket, the number of conditionals whose colon has not been read
	ternaries = append(ternaries, 0)
	for {
		if src = strings.TrimLeft(src, " \t\r\n\f"); src == "" {
			return toks, len(toks) > 0
		}
		m := celLexeme.FindStringSubmatchIndex(src)
		if m == nil || strings.HasPrefix(src, "//") {
			return nil, false
		}
		t := celToken{text: src[:m[1]], space: true}
		src = src[m[1]:]
		var prev celToken
		if len(toks) > 0 {
			prev = toks[len(toks)-1]
		}
		operand := len(toks) > 0 && (prev.kind == celWord || prev.kind == celClose) // prev ends an operand
		group := 0
		for i := 1; i < len(names); i++ {
			if m[2*i] >= 0 {
				group = i
			}
		}
		open := &ternaries[len(ternaries)-1]
		switch {
		case names[group] == "string":
			if strings.ContainsFunc(t.text, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
				return nil, false
			}
			t.text = singleQuoted(t.text)
		case names[group] == "number":
		case names[group] == "name":
			if t.text == "in" {
				t.kind = celBinary
			}
		case strings.Contains("([{", t.text):
			t.kind, t.space = celOpen, !operand
			ternaries = append(ternaries, 0)
		case strings.Contains(")]}", t.text):
			t.kind, t.space = celClose, false
			if len(ternaries) == 1 {
				return nil, false
			}
			ternaries = ternaries[:len(ternaries)-1]
		case t.text == ",":
			t.kind, t.space = celComma, false
		case t.text == ".":
			t.kind, t.space = celDot, !operand
		case t.text == ":" && *open == 0:
			t.kind, t.space = celColon, false
		case t.text == "!" || t.text == "-" && !operand:
			t.kind = celUnary
		default:
			t.kind = celBinary
			switch t.text {
			case "?":
				*open++
			case ":":
				*open--
			}
		}
		if len(toks) == 0 || prev.kind == celOpen || prev.kind == celUnary || prev.kind == celDot {
			t.space = false
		}
		toks = append(toks, t)
	}
}

// singleQuoted returns a string literal in single quotes. If the content would need a change for that, it returns the
// literal as it is.
func singleQuoted(lit string) string {
	at := strings.IndexAny(lit, `"'`)
	if lit[at] == '\'' || strings.Contains(lit[at:], `"""`) || strings.ContainsAny(lit, `'\`) {
		return lit
	}
	return lit[:at] + "'" + lit[at+1:len(lit)-1] + "'"
}

// layout breaks an expression over lines.
type layout struct {
	toks   []celToken
	lines  []string // finished lines
	cur    string
	indent int // of the line cur
}

func (l *layout) link() {
	var open []int
	for i, t := range l.toks {
		switch t.kind {
		case celOpen:
			open = append(open, i)
		case celClose:
			l.toks[open[len(open)-1]].match = i
			open = open[:len(open)-1]
		}
	}
}

// breakable reports whether the expression has an operator at which a line may be broken. Otherwise the expression
// stays on one line, even if it has long lists of arguments, such as those of format.
func (l *layout) breakable() bool {
	return len(l.find(0, len(l.toks), "?")) > 0 || slices.ContainsFunc(l.toks, func(t celToken) bool {
		return t.text == "&&" || t.text == "||"
	})
}

// text returns the tokens from lo to hi on one line.
func (l *layout) text(lo, hi int) string {
	var b strings.Builder
	for i := lo; i < hi; i++ {
		if i > lo && l.toks[i].space {
			b.WriteByte(' ')
		}
		b.WriteString(l.toks[i].text)
	}
	return b.String()
}

// find returns the positions of a token between lo and hi. It ignores tokens in brackets.
func (l *layout) find(lo, hi int, text string) []int {
	var at []int
	for i := lo; i < hi; i++ {
		if l.toks[i].text == text {
			at = append(at, i)
		}
		if l.toks[i].kind == celOpen {
			i = l.toks[i].match
		}
	}
	return at
}

func (l *layout) fits(s string) bool { return utf8.RuneCountInString(l.cur+s) <= celWidth }

func (l *layout) newline(indent int) {
	l.lines = append(l.lines, strings.TrimRight(l.cur, " "))
	l.cur, l.indent = strings.Repeat(" ", indent), indent
}

// put appends the tokens from lo to hi to the layout. A line that begins with an operator is indented by indent. A line
// inside an operand is indented by more. After the last token, the line must have room for tail more characters.
func (l *layout) put(lo, hi, indent, tail int) {
	if s := l.text(lo, hi); l.fits(s + strings.Repeat(" ", tail)) {
		l.cur += s
		return
	}
	if q := l.find(lo, hi, "?"); len(q) > 0 {
		c := l.find(q[0], hi, ":")[0]
		l.put(lo, q[0], indent+2, 0)
		l.newline(indent)
		l.cur += "? "
		l.put(q[0]+1, c, indent+2, 0)
		l.newline(indent)
		l.cur += ": "
		l.put(c+1, hi, indent+2, tail)
		return
	}
	for _, op := range []string{"||", "&&"} {
		if at := l.find(lo, hi, op); len(at) > 0 {
			l.fill(lo, hi, at, op, indent, tail)
			return
		}
	}
	l.inside(lo, hi, tail)
}

// fill puts operands on a line until it is full. Then it begins another line with the operator op.
func (l *layout) fill(lo, hi int, at []int, op string, indent, tail int) {
	broken := false
	for i := 0; i <= len(at); i++ {
		end, after := hi, tail
		if i < len(at) {
			end, after = at[i], 0
		}
		if i > 0 {
			if s := " " + op + " "; !broken && l.fits(s+l.text(lo, end)+strings.Repeat(" ", after)) {
				l.cur += s
			} else {
				l.newline(indent)
				l.cur += op + " "
			}
		}
		n := len(l.lines)
		l.put(lo, end, indent+len(op)+1, after)
		broken = len(l.lines) > n
		if i < len(at) {
			lo = at[i] + 1
		}
	}
}

// inside breaks a line in which all operators are in brackets. It breaks inside the longest pair of brackets, at the
// operators there or after commas.
func (l *layout) inside(lo, hi, tail int) {
	open, longest := -1, 0
	for i := lo; i < hi; i++ {
		if t := l.toks[i]; t.kind == celOpen {
			if n := len(l.text(i, t.match)); n > longest {
				open, longest = i, n
			}
			i = t.match
		}
	}
	if open < 0 {
		l.cur += l.text(lo, hi)
		return
	}
	end := l.toks[open].match
	l.cur += l.text(lo, open+1)
	indent := l.indent + 2
	rest := l.text(end, hi)
	commas := append(l.find(open+1, end, ","), end)
	for i, from := 0, open+1; i < len(commas); i++ {
		to, after := commas[i], 1
		if to == end {
			after = tail + utf8.RuneCountInString(rest)
		}
		if i > 0 {
			if s := l.text(from, to) + strings.Repeat(" ", after+1); l.fits(s) {
				l.cur += " "
			} else {
				l.newline(indent)
			}
		}
		l.put(from, to, utf8.RuneCountInString(l.cur), after)
		if to < end {
			l.cur += ","
		}
		from = to + 1
	}
	l.cur += rest
}
