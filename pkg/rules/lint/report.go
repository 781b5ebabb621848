package lint

import (
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"

	"lazaret/pkg/text"
)

// Count returns the number of findings with the given level.
func Count(fs []Finding, level string) (n int) {
	for _, f := range fs {
		if f.Level == level {
			n++
		}
	}
	return n
}

// WriteFindings writes findings as text: the place, the message, and the line with a caret under the place. It prefixes
// each file's name with base. Text from the files is made safe to print.
func WriteFindings(w io.Writer, base string, fs []Finding) error {
	for _, f := range fs {
		place := path.Join(base, f.File)
		if f.Line > 0 {
			place += fmt.Sprintf(":%d:%d", f.Line, f.Column)
		}
		if _, err := fmt.Fprintf(w, "%s: %s: %s [%s]\n", text.InertLine(place, 0), f.Level, text.Inert(f.Message),
			f.Rule); err != nil {
			return err
		}
		if f.Line == 0 {
			continue
		}
		line := []rune(f.Source)
		before := text.Inert(string(line[:min(max(f.Column-1, 0), len(line))]))
		pad := strings.Map(func(r rune) rune {
			if r == '\t' {
				return r
			}
			return ' '
		}, before)
		n := fmt.Sprintf("%5d", f.Line)
		if _, err := fmt.Fprintf(w, "%s | %s\n%s | %s^\n", n, text.Inert(f.Source), strings.Repeat(" ", len(n)),
			pad); err != nil {
			return err
		}
	}
	return nil
}

// SARIF is a log in version 2.1.0 of the Static Analysis Results Interchange Format, which code hosts read.
type SARIF struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool       sarifTool                `json:"tool"`
	ColumnKind string                   `json:"columnKind"`
	Bases      map[string]sarifArtifact `json:"originalUriBaseIds,omitempty"`
	Results    []sarifResult            `json:"results"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name  string      `json:"name"`
	Rules []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID      string       `json:"id"`
	Short   sarifText    `json:"shortDescription"`
	Help    sarifText    `json:"help"`
	Default sarifDefault `json:"defaultConfiguration"`
}

type sarifDefault struct {
	Level string `json:"level"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	RuleIndex int             `json:"ruleIndex"`
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations"`
}

type sarifLocation struct {
	Physical sarifPhysical `json:"physicalLocation"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   *sarifRegion  `json:"region,omitempty"`
}

type sarifArtifact struct {
	URI  string `json:"uri"`
	Base string `json:"uriBaseId,omitempty"`
}

type sarifRegion struct {
	StartLine   int       `json:"startLine"`
	StartColumn int       `json:"startColumn"`
	Snippet     sarifText `json:"snippet"`
}

// sarifBase stands in file names for the rule set's folder, if that folder is not below the working folder.
const sarifBase = "RULES"

// ToSARIF returns findings as a SARIF log. base is the rule set's folder: an absolute path, or a path relative to the
// working folder. The file names of the findings are relative to base.
func ToSARIF(base string, fs []Finding) SARIF {
	run := sarifRun{
		ColumnKind: "unicodeCodePoints",
		Results:    []sarifResult{},
		Tool:       sarifTool{sarifDriver{Name: "lazaret rules check"}},
	}
	for _, l := range lints {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules,
			sarifRule{l.ID, sarifText{l.Doc}, sarifText{l.Help}, sarifDefault{l.Level}})
	}
	id := ""
	if path.IsAbs(base) || base == ".." || strings.HasPrefix(base, "../") {
		id = sarifBase
		if path.IsAbs(base) {
			run.Bases = map[string]sarifArtifact{
				id: {URI: (&url.URL{Scheme: "file", Path: strings.TrimSuffix(base, "/") + "/"}).String()},
			}
		}
		base = ""
	}
	for _, f := range fs {
		at := sarifPhysical{Artifact: sarifArtifact{URI: (&url.URL{Path: path.Join(base, f.File)}).String(), Base: id}}
		if f.Line > 0 {
			at.Region = &sarifRegion{f.Line, max(f.Column, 1), sarifText{f.Source}}
		}
		i := slices.IndexFunc(lints, func(l Info) bool { return l.ID == f.Rule })
		run.Results = append(run.Results, sarifResult{f.Rule, i, f.Level, sarifText{f.Message}, []sarifLocation{{at}}})
	}
	return SARIF{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}}
}
