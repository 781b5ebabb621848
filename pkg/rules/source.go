package rules

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"

	"lazaret/pkg/internal/strictyaml"
	"lazaret/streams"
)

// Source has the texts of a rule set: groups.yaml, and for each pack a folder with pack.yaml, rule
// files and tests.
type Source struct {
	Files  map[string]string
	digest string
}

// MaxBundle is the maximum size of a bundle, in bytes.
const MaxBundle = streams.MaxChunks * streams.ChunkSize

// bundleFormat is the value of the field `format`, with which every bundle begins.
const bundleFormat = "lazaret/rules/v1"

type bundle struct {
	Format string `json:"format"`
	Files  []file `json:"files"` // ordered by name
}

type file struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Pack makes a bundle of the *.yaml files of a rule set. The same files always give the same bytes.
func Pack(fsys fs.FS) ([]byte, error) { return PackWith(fsys, nil) }

// PackWith is like Pack, but replaces or adds the files in replace, a map from name to text.
func PackWith(fsys fs.FS, replace map[string]string) ([]byte, error) {
	b := bundle{Format: bundleFormat}
	for name, text := range replace {
		b.Files = append(b.Files, file{name, text})
	}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if _, ok := replace[name]; ok || err != nil || d.IsDir() || path.Ext(name) != ".yaml" {
			return err
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		b.Files = append(b.Files, file{name, string(text)})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("collecting rules: %w", err)
	}
	return b.encode()
}

// PackFiles is like Pack, for files given as a map from name to text.
func PackFiles(files map[string]string) ([]byte, error) {
	b := bundle{Format: bundleFormat}
	for name, text := range files {
		b.Files = append(b.Files, file{name, text})
	}
	return b.encode()
}

func (b bundle) encode() ([]byte, error) {
	sort.Slice(b.Files, func(i, j int) bool { return b.Files[i].Name < b.Files[j].Name })
	return streams.Marshal(b)
}

// Open parses a bundle.
func Open(data []byte) (*Source, error) {
	if len(data) > MaxBundle {
		return nil, fmt.Errorf("the bundle is %d bytes, at most %d are possible", len(data), MaxBundle)
	}
	var b bundle
	if err := streams.Unmarshal(data, &b); err != nil {
		return nil, fmt.Errorf("the bundle is not readable: %w", err)
	}
	if b.Format != bundleFormat {
		return nil, fmt.Errorf("the bundle's format is %q, this program reads %q", b.Format, bundleFormat)
	}
	s := &Source{Files: make(map[string]string, len(b.Files)), digest: streams.Digest(data)}
	for _, f := range b.Files {
		if _, ok := s.Files[f.Name]; ok {
			return nil, fmt.Errorf("the bundle has %s twice", f.Name)
		}
		s.Files[f.Name] = f.Text
	}
	return s, nil
}

// Names returns the names of the files in a pack's folder that end with suffix, in alphabetical order. If dir is empty,
// it looks in the rule set's folder.
func (s *Source) Names(dir, suffix string) []string {
	var out []string
	for name := range s.Files {
		if d := path.Dir(name); (d == dir || dir == "" && d == ".") && strings.HasSuffix(name, suffix) {
			out = append(out, name)
		}
	}
	sort.Strings(out)
	return out
}

// Problems lists everything that is wrong with a rule set.
type Problems []*strictyaml.Error

// Error returns the problems, one per line.
func (p Problems) Error() string {
	var b strings.Builder
	for i, e := range p {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.Error())
	}
	return b.String()
}

// note appends an error to the problems. If the error has no position, its position is the file as a whole.
func (p *Problems) note(file string, err error) {
	var e *strictyaml.Error
	if !errors.As(err, &e) {
		e = &strictyaml.Error{File: file, Msg: err.Error()}
	}
	*p = append(*p, e)
}
