package inquiry

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/pkg/position"
	"lazaret/pkg/text"
)

//go:embed report.html.tmpl
var reportTemplate string

//go:embed detail.html.tmpl
var detailTemplate string

// cell makes untrusted text inert and short: one line, without control or bidi characters.
func cell(s string) string { return text.InertLine(s, maxText) }

// perPage is the number of entries on a detail page.
const perPage = 200

// maxBody is the limit of an entry's body on a detail page, in bytes; entries.jsonl has the whole body.
const maxBody = 8 << 10

// page returns the name of the detail page with an entry.
func (r *Report) page(e *Entry) string {
	for i, x := range r.Session.Entries {
		if x.Index == e.Index {
			return fmt.Sprintf("detail-%03d.html", i/perPage+1)
		}
	}
	return ""
}

// link returns the URL of an entry's details, or "".
func (r *Report) link(e *Entry) string {
	if e == nil {
		return ""
	}
	if p := r.page(e); p != "" {
		return fmt.Sprintf("%s#e%d", p, e.Index)
	}
	return ""
}

func (r *Report) funcs() template.FuncMap {
	return template.FuncMap{"cell": cell, "cellLong": func(s string) string { return text.InertLine(s, 0) },
		"link": r.link, "position": position.Text, "more": func() string { return "detail-001.html" }}
}

// HTML returns the report as a single page without script or external styles, fonts and images, and
// with a policy that forbids them. Logged text may be hostile, so all of it is made inert and escaped
// by html/template.
func (r *Report) HTML() ([]byte, error) {
	t, err := template.New("report").Funcs(r.funcs()).Parse(reportTemplate)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, r)
	return b.Bytes(), err
}

// Markdown returns the report as CommonMark with tables.
func (r *Report) Markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n", escapeMarkdown(r.Title))
	for _, f := range r.Facts {
		mark := ""
		if f.Bad {
			mark = "**!** "
		}
		fmt.Fprintf(&b, "- %s**%s**: %s\n", mark, f.Name, escapeMarkdown(text.InertLine(f.Text, 0)))
	}
	for _, t := range r.Tables {
		fmt.Fprintf(&b, "\n## %s\n\n", t.Title)
		if t.Note != "" {
			fmt.Fprintf(&b, "%s\n\n", t.Note)
		}
		if len(t.Rows) == 0 {
			b.WriteString("None.\n")
			continue
		}
		fmt.Fprintf(&b, "| %s | leaf |\n|%s\n", strings.Join(t.Head, " | "), strings.Repeat("---|", len(t.Head)+1))
		for _, row := range t.Rows {
			b.WriteByte('|')
			for i, c := range row.Cells {
				c = escapeMarkdown(cell(c))
				if i == 0 && row.Bad {
					c = "**!** " + c
				}
				fmt.Fprintf(&b, " %s |", c)
			}
			leaf := ""
			if l := r.link(row.Entry); l != "" {
				leaf = fmt.Sprintf("[%d](%s)", row.Entry.Index, l)
			} else if row.Entry != nil {
				leaf = fmt.Sprint(row.Entry.Index)
			}
			fmt.Fprintf(&b, " %s |\n", leaf)
		}
		if t.More > 0 {
			fmt.Fprintf(&b, "\nAnd %d more, in [the detail](detail-001.html).\n", t.More)
		}
	}
	fmt.Fprintf(&b, "\nEvery leaf has a proof: `lazaret audit prove LEAF`; those of held, denied, approved and alerted "+
		"entries are in proofs/.\n")
	return b.Bytes()
}

// markdown escapes text for CommonMark, including HTML and GitHub's tables and autolinks.
var markdown = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\\", "\\\\", "`", "\\`", "*", "\\*", "_",
	"\\_", "{", "\\{", "}", "\\}",
	"[", "\\[", "]", "\\]", "|", "\\|", "~", "\\~", "!", "\\!", "#", "\\#", "@", "\\@", "://", "\\://", "www.", "www\\.")

func escapeMarkdown(s string) string { return markdown.Replace(s) }

type detailPage struct {
	Title      string
	Page, Last int
	Entries    []detailEntry
}

type detailEntry struct {
	*Entry
	Text string
	Cut  bool
}

// Write writes the report to a folder: report.html, report.md, the detail pages, entries.jsonl with
// complete entries, the checkpoint, and proofs. The folder must be empty or not exist.
func (l *Log) Write(r *Report, dir string) error {
	if old, err := os.ReadDir(dir); err == nil && len(old) > 0 {
		return fmt.Errorf("%s is not empty: name a new folder", dir)
	}
	if err := os.MkdirAll(filepath.Join(dir, "proofs"), 0o700); err != nil {
		return err
	}
	put := func(name string, b []byte) error { return os.WriteFile(filepath.Join(dir, name), b, 0o600) }
	html, err := r.HTML()
	if err != nil {
		return err
	}
	if err := errors.Join(put("report.html", html), put("report.md", r.Markdown())); err != nil {
		return err
	}
	if l.cp != nil {
		if err := put("checkpoint", l.cp); err != nil {
			return err
		}
	}
	all, err := os.OpenFile(filepath.Join(dir, "entries.jsonl"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w := jsonl{all}
	for _, e := range r.Session.Entries {
		if err := w.Write(e); err != nil {
			return errors.Join(err, all.Close())
		}
	}
	if err := all.Close(); err != nil {
		return err
	}
	t, err := template.New("detail").Funcs(r.funcs()).Parse(detailTemplate)
	if err != nil {
		return err
	}
	es := r.Session.Entries
	last := (len(es) + perPage - 1) / perPage
	for p := 1; p <= last; p++ {
		page := detailPage{Title: r.Title, Page: p, Last: last}
		for _, e := range es[(p-1)*perPage : min(len(es), p*perPage)] {
			page.Entries = append(page.Entries, newDetail(e))
		}
		var b bytes.Buffer
		if err := t.Execute(&b, page); err != nil {
			return err
		}
		if err := put(fmt.Sprintf("detail-%03d.html", p), b.Bytes()); err != nil {
			return err
		}
	}
	for _, e := range r.evidence() {
		p, err := l.Prove(e)
		if err != nil {
			return err
		}
		if p == nil {
			continue // no checkpoint covers it yet
		}
		text, err := l.proofText(e)
		if err != nil {
			return err
		}
		if err := put(filepath.Join("proofs", fmt.Sprintf("%d.tlog-proof", e.Index)), text); err != nil {
			return err
		}
	}
	return nil
}

// evidence returns the entries behind the rows of a report.
func (r *Report) evidence() []*Entry {
	seen := make(map[int64]bool)
	var out []*Entry
	for _, t := range r.Tables {
		for _, row := range t.Rows {
			if row.Entry != nil && !seen[row.Entry.Index] {
				seen[row.Entry.Index] = true
				out = append(out, row.Entry)
			}
		}
	}
	return out
}

func newDetail(e *Entry) detailEntry {
	v := jsontext.Value(bytes.Clone(e.Body))
	if v.Indent(jsontext.WithIndent("  ")) != nil {
		v = e.Body
	}
	d := detailEntry{Entry: e, Text: text.Inert(string(v))}
	if len(d.Text) > maxBody {
		d.Text, d.Cut = strings.ToValidUTF8(d.Text[:maxBody], ""), true
	}
	return d
}
