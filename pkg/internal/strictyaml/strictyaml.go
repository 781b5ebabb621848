package strictyaml

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// MaxSize is the maximum size of a document, in bytes.
const MaxSize = 1 << 20

// maxNesting is the maximum depth of flow collections inside each other, and of sequences that begin on the same line.
// It limits the parser's recursion.
const maxNesting = 16

// secretPrefix begins the text of private keys in the C2SP note format. Errors do not show a line
// with a private key, because errors end up in logs.
const secretPrefix = "PRIVATE+KEY+"

// Error is an error at a position in a file.
type Error struct {
	File         string
	Line, Column int    // counted from 1; 0 if the error is about the whole file
	Msg          string // what is wrong and what to do
	Source       string // the text of the line, without line break
	cause        error

	doc    *Document // the document and the scalar of the value that the error is about; doc is nil if there is none
	scalar scalar
}

// Unwrap returns the error that Msg wraps, or nil.
func (e *Error) Unwrap() error { return e.cause }

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Msg)
	}
	return fmt.Sprintf("%s:%d:%d: %s\n  %d | %s", e.File, e.Line, e.Column, e.Msg, e.Line, e.Source)
}

// Document is a parsed file.
type Document struct {
	file string
	src  []byte
	root ast.Node // nil for an empty document
}

// Parse parses the syntax of a document. file is the name of the document in errors. Every error is an *Error.
func Parse(file string, src []byte) (doc *Document, err error) {
	doc = &Document{file: file, src: src}
	if len(src) > MaxSize {
		return nil, doc.whole("the document has %d bytes, at most %d are possible", len(src), MaxSize)
	}
	defer doc.recovered(&err)
	tokens := lexer.Tokenize(string(src))
	if err := doc.checkTokens(tokens); err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, doc.convert(err)
	}
	for _, d := range parsed.Docs {
		if d.Body == nil || d.Body.Type() == ast.CommentType {
			continue
		}
		if doc.root != nil {
			return nil, doc.at(d.Body.GetToken(), "the file has a second document: use one file for each")
		}
		doc.root = d.Body
	}
	return doc, nil
}

// checkTokens returns an error for the first YAML feature in the document that is not supported.
func (d *Document) checkTokens(tokens token.Tokens) error {
	flow, entries, line := 0, 0, 0
	for _, tk := range tokens {
		switch tk.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			return d.at(tk, "anchors, aliases and merge keys are not supported: write the value out")
		case token.TagType:
			return d.at(tk, "tags are not supported; quote a value that begins with '!'")
		case token.DirectiveType:
			return d.at(tk, "directives are not supported; quote a value that begins with '%%'")
		case token.MappingKeyType:
			return d.at(tk, "complex keys are not supported; quote a value that begins with '?'")
		case token.InvalidType:
			return d.at(tk, "%s", cmp.Or(tk.Error, "invalid character"))
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType:
			if tk.Position.Line != line {
				line, entries = tk.Position.Line, 0
			}
			entries++
		}
		if flow > maxNesting || entries > maxNesting {
			return d.at(tk, "collections are nested more than %d deep", maxNesting)
		}
	}
	return nil
}

// Empty reports whether the document contains only comments.
func (d *Document) Empty() bool { return d.root == nil }

// Decode decodes the document to *v. A key without a matching field is an error. An empty document
// leaves *v unchanged. Every error is an *Error.
func (d *Document) Decode(v any) (err error) {
	if d.root == nil {
		return nil
	}
	defer d.recovered(&err)
	if err := yaml.NodeToValue(d.root, v, yaml.Strict()); err != nil {
		var unknown *yaml.UnknownFieldError
		if errors.As(err, &unknown) {
			// The library reports any one of the unknown fields. Report the first one in the file instead.
			if all := d.Unknown(v); len(all) > 0 {
				return all[0]
			}
		}
		return d.convert(err)
	}
	return nil
}

// Errorf returns an error at the position of the value with the given path. The path has field names and list indexes,
// from the root. If the document has no value with this path, the position is that of the last value on the path that
// exists. A format with %w wraps its error. If the wrapped error is a Within, it determines the position inside the
// value.
func (d *Document) Errorf(path []any, format string, args ...any) *Error {
	node := d.root
	for _, step := range path {
		next := child(node, step)
		if next == nil {
			break
		}
		node = next
	}
	if node == nil {
		return d.whole(format, args...)
	}
	e := d.at(first(node), format, args...)
	if s, ok := scalarOf(node); ok {
		e.doc, e.scalar = d, s
		var in Within
		if errors.As(e.cause, &in) {
			line, column := in.Within()
			d.within(e, s, line, column)
		}
	}
	return e
}

func child(node ast.Node, step any) ast.Node {
	switch step := step.(type) {
	case string:
		switch n := node.(type) {
		case *ast.MappingNode:
			for _, v := range n.Values {
				if v.Key.GetToken().Value == step {
					return v.Value
				}
			}
		case *ast.MappingValueNode:
			if n.Key.GetToken().Value == step {
				return n.Value
			}
		}
	case int:
		if n, ok := node.(*ast.SequenceNode); ok && step >= 0 && step < len(n.Values) {
			return n.Values[step]
		}
	}
	return nil
}

// first returns the token at which a node begins. For the node of a mapping, the library returns the first colon
// instead.
func first(node ast.Node) *token.Token {
	switch n := node.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return first(n.Values[0])
		}
	case *ast.MappingValueNode:
		return n.Key.GetToken()
	}
	return node.GetToken()
}

func (d *Document) whole(format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{File: d.file, Msg: err.Error(), cause: errors.Unwrap(err)}
}

func (d *Document) at(tk *token.Token, format string, args ...any) *Error {
	if tk == nil || tk.Position == nil {
		return d.whole(format, args...)
	}
	e := d.whole(format, args...)
	e.Line, e.Column = tk.Position.Line, tk.Position.Column
	e.Source = d.line(e.Line)
	return e
}

// quoting returns advice for a value that looks like a string but that YAML does not read as one: put it in quotes.
func quoting(message string) string {
	if strings.Contains(message, "value is not allowed in this context") {
		return "; quote the whole of a value that begins with a quote or a bracket, or that has a colon before a space, or " +
			"write >- and the value on the next lines"
	}
	return ""
}

func (d *Document) convert(err error) error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	var at yaml.Error
	if errors.As(err, &at) {
		return d.at(at.GetToken(), "%s%s", at.GetMessage(), quoting(at.GetMessage()))
	}
	return d.whole("%v", err)
}

// recovered converts a panic of the YAML library to an error. The library panics on some malformed
// documents.
func (d *Document) recovered(err *error) {
	if r := recover(); r != nil {
		*err = d.whole("malformed YAML: %v", r)
	}
}

func (d *Document) line(n int) string {
	for line := range bytes.Lines(d.src) {
		if n--; n > 0 {
			continue
		}
		if at := bytes.Index(line, []byte(secretPrefix)); at >= 0 {
			return string(line[:at]) + secretPrefix + "…"
		}
		return strings.TrimRight(string(line), "\r\n")
	}
	return ""
}
