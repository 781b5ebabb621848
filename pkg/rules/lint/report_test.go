package lint

import (
	"encoding/json"
	"maps"
	"net/url"
	"strings"
	"testing"

	"lazaret/pkg/internal/cleanrules"
)

func TestFindingsShowTheLineAndACaret(t *testing.T) {
	var b strings.Builder
	err := WriteFindings(&b, "packs", []Finding{
		{Rule: "compile", Level: LevelError, File: "p/r.yaml", Line: 3, Column: 6, Message: "no such name",
			Source: "\té: § x"},
		{Rule: "compile", Level: LevelError, File: "p/r.yaml", Line: 120, Column: 4, Message: "of \x1b[31mit",
			Source: "a\x1b\u202eb"},
		{Rule: "unread-file", Level: LevelWarning, File: "p/q.yaml", Message: "not read"},
	})
	want := "packs/p/r.yaml:3:6: error: no such name [compile]\n    3 | \té: § x\n      | \t    ^\n" +
		"packs/p/r.yaml:120:4: error: of \\x1b[31mit [compile]\n  120 | a\\x1b\\u202eb\n      |            ^\n" +
		"packs/p/q.yaml: warning: not read [unread-file]\n"
	if err != nil || b.String() != want {
		t.Errorf("%v\n got:\n%s\nwant:\n%s", err, b.String(), want)
	}
}

// The SARIF log must have the fields that the schema of SARIF 2.1.0 requires. It must also have the fields without
// which code scanning shows no findings.
func TestTheSARIFLogHasWhatItHasToHave(t *testing.T) {
	files := maps.Clone(cleanrules.Files)
	files["p/r.yaml"] = strings.Replace(files["p/r.yaml"], "cwe-94", "cwe 94", 1)
	files["p/a b/x.yaml"] = "rules: []\n"
	fs := lintOf(t, files)
	if len(fs) != 2 {
		t.Fatalf("%+v", fs)
	}
	for base, prefix := range map[string]string{"": "", "packs": "packs/", "/abs/packs": "", "../up": "", ".": ""} {
		raw, err := json.Marshal(ToSARIF(base, fs))
		if err != nil {
			t.Fatal(err)
		}
		var log struct {
			Schema  string `json:"$schema"`
			Version string
			Runs    []struct {
				ColumnKind string
				Bases      map[string]struct{ URI string } `json:"originalUriBaseIds"`
				Tool       struct {
					Driver struct {
						Name  string
						Rules []struct {
							ID                     string
							ShortDescription, Help struct{ Text string }
							DefaultConfiguration   struct{ Level string }
						}
					}
				}
				Results *[]struct {
					RuleID    string
					RuleIndex int
					Level     string
					Message   struct{ Text string }
					Locations []struct {
						PhysicalLocation struct {
							ArtifactLocation struct{ URI, URIBaseID string }
							Region           *struct{ StartLine, StartColumn int }
						}
					}
				}
			}
		}
		if err := json.Unmarshal(raw, &log); err != nil {
			t.Fatal(err)
		}
		if log.Version != "2.1.0" || !strings.Contains(log.Schema, "sarif-2.1.0") || len(log.Runs) != 1 {
			t.Fatalf("version %q, schema %q, %d runs", log.Version, log.Schema, len(log.Runs))
		}
		run := log.Runs[0]
		if run.Tool.Driver.Name == "" || run.Results == nil || len(*run.Results) != len(fs) ||
			run.ColumnKind != "unicodeCodePoints" {
			t.Fatalf("%s", raw)
		}
		ids := make(map[string]bool)
		for _, r := range run.Tool.Driver.Rules {
			if r.ID == "" || ids[r.ID] || r.ShortDescription.Text == "" || r.Help.Text == "" ||
				r.DefaultConfiguration.Level == "" {
				t.Errorf("rule %+v", r)
			}
			ids[r.ID] = true
		}
		for i, r := range *run.Results {
			at := r.Locations[0].PhysicalLocation
			u, err := url.Parse(at.ArtifactLocation.URI)
			if err != nil || u.IsAbs() || strings.HasPrefix(u.Path, "/") || u.Path != prefix+fs[i].File {
				t.Errorf("base %q: the URI is %q: %v", base, at.ArtifactLocation.URI, err)
			}
			if id := at.ArtifactLocation.URIBaseID; (id != "") != (base == "/abs/packs" || base == "../up") {
				t.Errorf("base %q: the URI's base is %q", base, id)
			}
			if base == "/abs/packs" && run.Bases["RULES"].URI != "file:///abs/packs/" {
				t.Errorf("the bases are %v", run.Bases)
			}
			if run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID || r.Message.Text == "" || r.Level != fs[i].Level {
				t.Errorf("result %+v", r)
			}
			if (fs[i].Line > 0) != (at.Region != nil) || at.Region != nil && (at.Region.StartLine != fs[i].Line ||
				at.Region.StartColumn != fs[i].Column) {
				t.Errorf("region %+v of %+v", at.Region, fs[i])
			}
		}
	}
	if raw, _ := json.Marshal(ToSARIF("", nil)); !strings.Contains(string(raw), `"results":[]`) {
		t.Error("without findings, the log has no list of results")
	}
}
