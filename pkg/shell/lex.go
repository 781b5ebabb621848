package shell

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// token is a word of a command line, after the quotes in it were removed.
type token struct {
	text    string
	inner   []sub // the parts for which a shell puts in other text: the output of programs, or a value
	unknown bool  // a shell may replace the word by a text that is not in the line
	glob    bool  // the word is unknown only because it has patterns of file names
	// the word has a variable of the list told; its value is an ordinary one unless the line sets variables
	told  bool
	loose bool // the text depends on the kind of shell or on the locale
	split bool // a shell may turn it into several words, by a substitution or variable outside of quotes
	pipe  bool // it is the name of a pipe that has the output of inner, as <(…)
	home  bool // it begins with the home, as ~ or ~/a without quotes
}

// sub is a part of a word that a shell replaces by another text.
type sub struct {
	text     string   // all parts of it that may be names of files
	commands []simple // the programs that run in it
}

type redirect struct {
	op     string // >, < or <<; for << (a here-document), the text of the document is in to
	to     token
	errors bool // it redirects a descriptor other than the output, such as the errors
	end    bool // it appends to the file
}

// simple is one program of a line with its redirections. If its first word is one of the two marks below, it is not a
// program but an arithmetic expression or the end of a control structure.
type simple struct {
	words     []token
	redirects []redirect
	piped     bool      // its output is the input of the next program
	in        *subshell // the subshell in which it runs; nil is the shell of the line
	chain     int       // programs of one chain have the same number: each runs only if the one before it succeeded
	maybe     bool      // it may not run, since it is in a control structure, or after && or ||
	row       int       // its line of the text; after an error of an expansion, a shell goes on with the next row
	turned    bool      // an earlier turn of its loop may have changed the folder
	timed     bool      // it follows the word time, which sh takes for a program
	behind    bool      // it runs in the background
	apart     bool      // it has &>: to sh, & ends the program, which then runs in the background with all before it
	shaky     bool      // it closes a descriptor, copies another one than those of the output and the errors, or has &>
}

// subshell is a subshell of a line.
type subshell struct {
	outer *subshell
	last  bool // zsh runs at least a part of it in the outer shell, such as the last program of a pipeline
	same  bool // zsh runs it in the shell of the line
}

const (
	closing    = "\x00done" // the end of a control structure
	evaluating = "\x00(("   // the evaluation of an arithmetic expression
)

// maxNested is the maximum depth of substitutions.
const maxNested = 3

// maxRead is the maximum length of a command line that is parsed. maxOpen is the maximum number of signs in a line that
// may begin a nested expression. It limits the depth of the parser's recursion.
const (
	maxRead = MaxLine << 4
	maxOpen = 4096
)

// longComment matches a comment that ends with a backslash. The parser takes the next line as a part of the comment,
// but bash does not.
var longComment = regexp.MustCompile(`#.*\\\n`)

// A zsh at a terminal takes a comment as words. plainRow matches comments in a row of their own that are then the name
// of a missing program with its arguments. plainEnd matches those that are harmless arguments of another program.
var (
	plainRow = regexp.MustCompile("^([^;&|<>`$('\"\\\\]|[ \t]\\()*$")
	plainEnd = regexp.MustCompile(`^[\w ,:]*$`)
)

// commented reports whether a zsh at a terminal may do something because of a comment. quote is where the line has its
// last quote.
func commented(line string, c *syntax.Comment, quote int) bool {
	from, to := int(c.Hash.Offset()), int(c.End().Offset())
	if row := strings.TrimLeft(line[strings.LastIndexByte(line[:from], '\n')+1:from], " \t"); row != "" {
		return strings.Contains(row, "cd") || !plainEnd.MatchString(c.Text)
	}
	text := c.Text
	if to > quote { // no later quote ends a quotation that the comment begins
		text = strings.NewReplacer("'", "", `"`, "").Replace(text)
	}
	return !plainRow.MatchString(text)
}

var parsers = sync.Pool{New: func() any { return syntax.NewParser(syntax.KeepComments(true)) }}

// lex splits a command line into its programs. plain is set if the programs run one after the other or in a pipeline.
// It is false if one of them is in a control structure or runs in the background. ok is false if the line has syntax
// that this package does not handle.
func lex(line string) (all []simple, plain, ok bool) {
	// A line may be too long, or bash and the parser read it differently.
	if len(line) > maxRead || strings.ContainsAny(line, "\x00\r") || strings.HasSuffix(line, `\`) ||
		longComment.MatchString(line) {
		return nil, false, false
	}
	open := 0
	for _, sign := range []string{"(", "[", "{", "if"} {
		open += strings.Count(line, sign)
	}
	if open > maxOpen {
		return nil, false, false
	}
	// A line that makes the parser panic must not stop a stage. It counts as not read.
	defer func() {
		if recover() != nil {
			all, plain, ok = nil, false, false
		}
	}()
	p := parsers.Get().(*syntax.Parser)
	f, err := p.Parse(strings.NewReader(line), "")
	parsers.Put(p)
	if err != nil {
		return nil, false, false
	}
	r := &reader{line: line, plain: true, ok: true}
	if quote := strings.LastIndexAny(line, `'"`); strings.Contains(line, "#") {
		syntax.Walk(f, func(n syntax.Node) bool {
			c, ok := n.(*syntax.Comment)
			r.ok = r.ok && !(ok && commented(line, c, quote))
			return true
		})
	}
	for i, s := range f.Stmts {
		if i > 0 && s.Pos().Line() > f.Stmts[i-1].End().Line() {
			r.at.row++
		}
		r.stmts(f.Stmts[i : i+1])
	}
	return r.all, r.plain, r.ok
}

// reader reads the syntax tree of a line.
type reader struct {
	line  string
	depth int // of substitutions
	all   []simple
	plain bool
	ok    bool
	last  int    // the latest number of a chain
	at    simple // the shell and the chain of the next program
}

// next returns a new number.
func (r *reader) next() int {
	r.last++
	return r.last
}

// within reads a part of the line that runs in a subshell.
func (r *reader) within(last bool, read func()) {
	outer := r.at.in
	r.at.in = &subshell{outer, last, last && (outer == nil || outer.same)}
	read()
	r.at.in = outer
}

// perhaps reads a part of the line that may not run.
func (r *reader) perhaps(read func()) {
	maybe := r.at.maybe
	r.at.maybe = true
	read()
	r.at.maybe = maybe
}

// source returns the part of the line that a node was read from.
func (r *reader) source(n syntax.Node) string {
	to := min(int(n.End().Offset()), len(r.line))
	return r.line[min(int(n.Pos().Offset()), to):to]
}

// raw is like source, without the backslashes that continue a line.
func (r *reader) raw(n syntax.Node) string { return strings.ReplaceAll(r.source(n), "\\\n", "") }

func (r *reader) stmts(all []*syntax.Stmt) {
	for _, s := range all {
		r.at.chain = r.next()
		if s.Background {
			// zsh runs only the last program of a && b & in the background, and the others in this shell.
			b, ok := s.Cmd.(*syntax.BinaryCmd)
			behind := r.at.behind
			r.at.behind = true
			r.within(ok && b.Op != syntax.Pipe && b.Op != syntax.PipeAll, func() { r.stmt(s, false) })
			r.at.behind = behind
		} else {
			r.stmt(s, false)
		}
	}
	r.at.chain = r.next()
}

// control are programs that change which program a name stands for.
var control = set("alias enable hash builtin")

// stmt reads a program or a control structure. piped says that the output of this program is the input of the next one.
func (r *reader) stmt(s *syntax.Stmt, piped bool) {
	r.plain = r.plain && !s.Background && !s.Negated
	c := r.at
	c.piped = piped
	switch cmd := s.Cmd.(type) {
	case nil:
	case *syntax.CallExpr:
		c.words = r.assigns(cmd.Assigns)
		for _, w := range cmd.Args {
			c.words = append(c.words, r.word(w))
		}
		if n := len(cmd.Assigns); n < len(c.words) && control[c.words[n].text] {
			r.ok = false
		}
	case *syntax.DeclClause:
		c.words = append([]token{{text: cmd.Variant.Value}}, r.assigns(cmd.Args)...)
	case *syntax.TestClause:
		c.words = append([]token{{text: "[["}}, r.words(cmd)...)
		syntax.Walk(cmd, func(n syntax.Node) bool {
			if b, ok := n.(*syntax.BinaryTest); ok && b.Op >= syntax.TsEql && b.Op <= syntax.TsGtr {
				r.all = append(r.all, simple{words: r.evaluation(b), in: c.in, chain: c.chain, maybe: c.maybe})
			}
			return n != nil
		})
	case *syntax.LetClause:
		c.words = append([]token{{text: "let"}}, r.words(cmd)...)
	case *syntax.ArithmCmd:
		c.words = r.evaluation(cmd)
	case *syntax.BinaryCmd:
		r.binary(cmd, piped)
		return
	case *syntax.TimeClause:
		r.plain = false
		if timed := r.at.timed; cmd.Stmt != nil {
			r.at.timed = true
			r.stmt(cmd.Stmt, piped)
			r.at.timed = timed
		}
		return
	default:
		r.plain = false
		r.perhaps(func() { r.compound(cmd) })
		c.words = []token{{text: closing}}
		if piped {
			c.words = append(c.words, token{text: r.raw(cmd)})
		}
	}
	for _, d := range s.Redirs {
		r.redirect(&c, d)
	}
	r.all = append(r.all, c)
}

// binary reads two programs with an operator between them.
func (r *reader) binary(cmd *syntax.BinaryCmd, piped bool) {
	if cmd.Op == syntax.Pipe || cmd.Op == syntax.PipeAll {
		r.within(false, func() { r.stmt(cmd.X, true) })
		r.within(true, func() { r.stmt(cmd.Y, piped) })
		return
	}
	r.stmt(cmd.X, false)
	_, one := cmd.X.Cmd.(*syntax.CallExpr)
	if x, ok := cmd.X.Cmd.(*syntax.BinaryCmd); ok {
		one = x.Op == syntax.AndStmt
	}
	if cmd.Op != syntax.AndStmt || !one || cmd.X.Negated {
		r.at.chain = r.next()
	}
	r.perhaps(func() { r.stmt(cmd.Y, piped) })
	if cmd.Op != syntax.AndStmt || cmd.Y.Negated {
		r.at.chain = r.next()
	}
}

// compound reads the programs in a control structure.
func (r *reader) compound(c syntax.Command) {
	switch c := c.(type) {
	case *syntax.Block:
		r.stmts(c.Stmts)
	case *syntax.Subshell:
		r.within(false, func() { r.stmts(c.Stmts) })
	case *syntax.IfClause:
		r.stmts(c.Cond)
		r.stmts(c.Then)
		if c.Else != nil {
			r.compound(c.Else)
		}
	case *syntax.WhileClause:
		from := len(r.all)
		r.stmts(c.Cond)
		r.stmts(c.Do)
		// A later turn runs in the folder to which an earlier one changed.
		r.ok = r.ok && !slices.ContainsFunc(r.all[from:], func(c simple) bool {
			return changes(unwrapped(c.words)) || steers(c)
		})
	case *syntax.ForClause:
		loop, ok := c.Loop.(*syntax.WordIter)
		if !ok || c.Select {
			r.ok = false
			return
		}
		words := []token{{text: "for"}, {text: loop.Name.Value}}
		for _, w := range loop.Items {
			words = append(words, r.word(w))
		}
		each := r.at
		each.words = words
		r.all = append(r.all, each)
		from := len(r.all)
		r.stmts(c.Do)
		if slices.ContainsFunc(r.all[from:], func(c simple) bool {
			return c.in == each.in && (changes(unwrapped(c.words)) || steers(c))
		}) {
			for i := range r.all[from:] {
				r.all[from+i].turned = true
			}
		}
	default:
		r.ok = false
	}
}

func (r *reader) assigns(all []*syntax.Assign) (out []token) {
	for _, a := range all {
		var t token
		switch {
		case a.Array != nil || a.Index != nil:
			r.ok = false
		case a.Value != nil:
			t = r.word(a.Value)
		}
		if a.Append { // the value of A+=b is not in the line
			t.unknown, t.glob = true, false
		}
		if a.Name != nil {
			t.text = a.Name.Value + "=" + t.text
			if a.Naked {
				t.text = a.Name.Value
			}
		}
		out = append(out, t)
	}
	return out
}

// redirect reads a redirection of a command. It leaves out a copy of a descriptor, such as 2>&1.
func (r *reader) redirect(c *simple, d *syntax.Redirect) {
	x := redirect{op: ">", errors: d.N != nil && d.N.Value != "1", to: r.word(d.Word)}
	r.ok = r.ok && (d.N == nil || len(d.N.Value) == 1) // to zsh, 12 is a word in front of a redirection, as {x} is to sh
	switch d.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		end := x.to.text
		x.op, x.to = "<<", token{}
		// bash ends the document at the first line that equals the end word, even inside an expansion
		if d.Hdoc != nil {
			ended := false
			for line := range strings.Lines(r.source(d.Hdoc)) {
				r.ok = r.ok && !ended
				ended = strings.Trim(line, "\t\n") == end
			}
		}
		if quoted := strings.ContainsAny(r.raw(d.Word), `'"\`); d.Hdoc != nil && quoted {
			x.to.text = d.Hdoc.Lit()
		} else if d.Hdoc != nil {
			r.ok = r.ok && !strings.Contains(r.source(d.Hdoc), "\\\n")
			r.parts(&x.to, d.Hdoc.Parts, "$`\\\n")
		}
	case syntax.WordHdoc:
		x.op = "<<"
	case syntax.RdrIn:
		x.op = "<"
	case syntax.DplIn:
		r.ok = r.ok && x.to.text == "-"
		c.shaky = true
		return
	case syntax.DplOut:
		c.shaky = c.shaky || x.to.text != "1" && x.to.text != "2"
		if literal(x.to) && (x.to.text == "-" || strings.Trim(x.to.text, "0123456789") == "") {
			return
		}
		r.ok = r.ok && !strings.ContainsAny(r.raw(d.Word), `\'"`) // bash removes quotes twice
	case syntax.RdrAll, syntax.AppAll:
		c.shaky, c.apart, x.end = true, true, d.Op == syntax.AppAll
	case syntax.AppOut:
		x.end = true
	case syntax.RdrOut, syntax.RdrClob:
	default:
		r.ok = false
	}
	c.redirects = append(c.redirects, x)
}

func (r *reader) word(w *syntax.Word) (t token) {
	r.parts(&t, w.Parts, "")
	if len(w.Parts) > 0 {
		first, ok := w.Parts[0].(*syntax.Lit)
		t.home = ok && (strings.HasPrefix(first.Value, "~/") || first.Value == "~" && len(w.Parts) == 1)
	}
	return t
}

// words reads all words in a node.
func (r *reader) words(n syntax.Node) (out []token) {
	syntax.Walk(n, func(n syntax.Node) bool {
		w, ok := n.(*syntax.Word)
		if ok {
			out = append(out, r.word(w))
		}
		return !ok
	})
	return out
}

// parts reads the parts of a word. escaped is empty outside of quotes. Inside quotes, it has the characters before
// which a backslash is a quote.
func (r *reader) parts(t *token, parts []syntax.WordPart, escaped string) {
	for _, p := range parts {
		switch p.(type) {
		case *syntax.ParamExp, *syntax.CmdSubst, *syntax.ArithmExp:
			t.split = t.split || escaped == ""
		}
		switch p := p.(type) {
		case *syntax.Lit:
			t.literal(p.Value, escaped)
		case *syntax.SglQuoted:
			text, ok := p.Value, true
			if p.Dollar {
				t.loose = true
				text, ok = unescaped(text)
			}
			t.text += text
			r.ok = r.ok && ok
		case *syntax.DblQuoted:
			t.loose = t.loose || p.Dollar // zsh and sh leave the $
			r.parts(t, p.Parts, "$`\"\\\n")
		case *syntax.ParamExp:
			r.parameter(t, p)
		case *syntax.CmdSubst:
			if p.Backquotes { // bash ends the substitution at the next backquote, even if this is inside quotes
				inner := strings.TrimSuffix(strings.TrimPrefix(r.source(p), "`"), "`")
				r.ok = r.ok && !strings.ContainsAny(inner, "`\\")
			}
			r.run(t, p, p.Stmts)
		case *syntax.ProcSubst:
			t.text, t.pipe = t.text+"/dev/fd/63", p.Op == syntax.CmdIn
			r.run(t, p, p.Stmts)
		case *syntax.ArithmExp:
			t.inner = append(t.inner, sub{commands: []simple{{words: r.evaluation(p)}}})
		default:
			r.ok = false
		}
	}
}

// literal adds a text to a word.
func (t *token) literal(s, escaped string) {
	if !strings.Contains(s, `\`) && (escaped != "" || strings.Trim(s, nameLetters+"-./") == "") {
		t.text += s
		return
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s) && (escaped == "" || strings.IndexByte(escaped, s[i+1]) >= 0):
			if i++; s[i] == '\n' {
				continue
			}
			c = s[i]
		case escaped != "":
		case strings.IndexByte("*?[{", c) >= 0:
			t.unknown, t.glob = true, t.glob || !t.unknown
		case c < ' ', c >= 0x7f, c == '=' && len(b)+len(t.text) == 0:
			t.loose = true
		}
		b = append(b, c)
	}
	t.text += string(b)
}

// escape is an escape in $'…'.
var escape = regexp.MustCompile(`(?s)\\(x\{[[:xdigit:]]+\}|x[[:xdigit:]]{1,2}|` +
	`u[[:xdigit:]]{1,4}|U[[:xdigit:]]{1,8}|[0-7]{1,3}|.)`)

// unescaped returns the text of $'…'. ok is false for three kinds of escapes: unknown ones, characters that depend on
// the locale, and \'. After \', sh reads the line in another way than bash.
func unescaped(s string) (text string, ok bool) {
	ok = true
	text = escape.ReplaceAllStringFunc(s, func(e string) string {
		base, digits := 16, strings.Trim(e[2:], "{}")
		if e[1] >= '0' && e[1] <= '7' {
			base, digits = 8, e[1:]
		}
		if n, err := strconv.ParseUint(digits, base, 32); err == nil {
			ok = ok && (n < 0x80 || e[1] != 'u' && e[1] != 'U')
			return string([]byte{byte(n)})
		}
		c, _, _, err := strconv.UnquoteChar(e, '"')
		ok = ok && err == nil
		return string(c)
	})
	text, _, _ = strings.Cut(text, "\x00")
	return text, ok
}

// run reads the programs of a substitution.
func (r *reader) run(t *token, n syntax.Node, stmts []*syntax.Stmt) {
	in := &reader{line: r.line, depth: r.depth + 1, ok: r.ok && r.depth < maxNested}
	if in.ok {
		in.stmts(stmts)
	}
	r.ok = in.ok
	s := sub{text: r.raw(n), commands: in.all}
	for _, c := range in.all {
		for _, w := range c.words {
			s.text += "\n" + w.text
		}
	}
	t.inner = append(t.inner, s)
}

// evaluation returns the words of an arithmetic expression in a node. The first one is the mark evaluating. A variable
// counts as unknown, because its value may contain a program that the shell runs when it evaluates the expression.
func (r *reader) evaluation(n syntax.Node) []token {
	words := []token{{text: evaluating}}
	for _, w := range r.words(n) {
		if strings.Trim(w.text, "0123456789") != "" || !literal(w) {
			w.unknown, w.glob = true, false
		}
		words = append(words, w)
	}
	return words
}

// told are variables that do not make a word unknown. Their values are ordinary paths and names, unless the line sets
// variables.
var told = set("HOME PWD USER LOGNAME HOSTNAME SHELL")

const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

// parameter reads a variable or a parameter.
func (r *reader) parameter(t *token, p *syntax.ParamExp) {
	if p.Param == nil || p.Exp != nil && (p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull) {
		r.ok = false
		return
	}
	name, raw := p.Param.Value, r.raw(p)
	t.text += raw
	if raw == "$"+name || raw == "${"+name+"}" {
		if told[name] {
			t.told = true
		} else if !strings.Contains("?#$!-", name) {
			t.unknown, t.glob = true, false
		}
		return
	}
	// Bash runs a process substitution inside the expansion of a variable, but the parser reads it as text.
	r.ok = r.ok && !strings.Contains(raw, "<(") && !strings.Contains(raw, ">(")
	t.unknown, t.glob = true, false
	words := []token{{text: ":"}}
	if p.Excl || p.Slice != nil || p.Index != nil || p.Exp != nil && p.Exp.Op == syntax.OtherParamOps {
		words = []token{{text: evaluating}, {text: name, unknown: true}} // the value may run programs
	}
	words = append(words, r.words(p)...)
	s := sub{commands: []simple{{words: words}}}
	for _, w := range words {
		s.text += w.text + "\n"
	}
	t.inner = append(t.inner, s)
}
