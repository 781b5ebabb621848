package memorytool

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nuid"

	"lazaret/streams"
)

// Limits of one owner's files.
const (
	maxFile    = 128 << 10 // bytes of a file
	maxEntries = 512       // files and folders
	maxDepth   = 8         // nested folders
	maxName    = 100       // bytes of a file's name
	maxLines   = 999_999   // lines that are shown
	snippet    = 4         // lines shown before and after an edit
)

const root = "/memories"

// folder contains the files. Neither a path nor a link can leave it.
type folder struct{ *os.Root }

func open(dir string) (*folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening the folder of the memory tool: %w", err)
	}
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the folder of the memory tool: %w", err)
	}
	return &folder{r}, nil
}

// shown returns the path of a file as the model sees it.
func shown(name string) string {
	if name == "." {
		return root
	}
	return root + "/" + name
}

// name converts a path to a name in the folder. It refuses a path that is not in its shortest form, such as one with
// "..".
func (d *folder) name(p string) (string, error) {
	rest, ok := strings.CutPrefix(p, root)
	rest = strings.TrimSuffix(rest, "/")
	if !ok || rest != "" && rest[0] != '/' {
		return "", failf("Error: The path %s is refused: paths begin with %s", streams.Clip(p, 200), root)
	}
	if rest == "" {
		return ".", nil
	}
	parts := strings.Split(rest[1:], "/")
	for _, part := range parts {
		odd := func(r rune) bool { return strings.ContainsRune(`\%`, r) || !unicode.IsPrint(r) }
		if part == "" || part[0] == '.' || len(part) > maxName || !utf8.ValidString(part) || strings.ContainsFunc(part, odd) {
			return "", failf("Error: The path %q is refused: a name in it is empty, begins with a dot, has over %d bytes, "+
				"or has "+
				"a character that is not printable, a backslash or a percent sign", streams.Clip(p, 200), maxName)
		}
	}
	if len(parts) > maxDepth {
		return "", failf("Error: The path %s is refused: it has more than %d parts", p, maxDepth)
	}
	return rest[1:], nil
}

// file is like name, but refuses the folder itself.
func (d *folder) file(p string) (string, error) {
	name, err := d.name(p)
	if err == nil && name == "." {
		return "", failf("Error: %s itself cannot be changed", root)
	}
	return name, err
}

// edited returns the name and text of the file at p, which is to be edited. If there is no file, its error has the text
// missing.
func (d *folder) edited(p, missing string) (name, text string, err error) {
	if name, err = d.file(p); err != nil {
		return "", "", err
	}
	if info, err := d.Stat(name); err != nil || info.IsDir() {
		return "", "", failf(missing, p)
	}
	text, err = d.read(name)
	return name, text, err
}

func (d *folder) read(name string) (string, error) {
	b, err := d.ReadFile(name)
	return strings.ToValidUTF8(string(b), "\uFFFD"), err
}

// parents returns an error if a parent of name is a file.
func (d *folder) parents(name string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if info, err := d.Stat(dir); err == nil && !info.IsDir() {
			return failf("Error: %s is a file", shown(dir))
		}
	}
	return nil
}

// room returns an error if the folder would have more than maxEntries files and folders with a new entry at name. Those
// parents of name that do not exist count too. moved says that the entry exists already, under another name.
func (d *folder) room(name string, moved bool) error {
	added := 0
	if !moved {
		added = 1
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, err := d.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			added++
		}
	}
	n := -1 // without the root
	err := fs.WalkDir(d.FS(), ".", func(string, fs.DirEntry, error) error { n++; return nil })
	if added > 0 && n+added > maxEntries {
		return failf("Error: there are %d files and directories already, and at most %d are allowed: delete some", n,
			maxEntries)
	}
	return err
}

// depth returns the number of parts of the longest name at or below name.
func (d *folder) depth(name string) (n int) {
	_ = fs.WalkDir(d.FS(), name, func(p string, _ fs.DirEntry, err error) error {
		n = max(n, strings.Count(p, "/")+1)
		return nil
	})
	return n
}

// write replaces a file atomically.
func (d *folder) write(name, text string) error {
	dir := path.Dir(name)
	if err := d.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temp := path.Join(dir, ".new-"+nuid.Next())
	f, err := d.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = d.Rename(temp, name)
	}
	if err != nil {
		_ = d.Remove(temp)
	}
	return err
}

// stamp returns a digest of the contents of a file or folder, to detect changes. A file that cannot be
// read counts as empty.
func (d *folder) stamp(name string) string {
	h := sha256.New()
	_ = fs.WalkDir(d.FS(), name, func(p string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			b, _ := d.ReadFile(p)
			fmt.Fprintf(h, "%q %q ", p, b)
		}
		return nil
	})
	return hex.EncodeToString(h.Sum(nil))
}

// list lists a folder, two levels deep, with sizes.
func (d *folder) list(name string) (string, error) {
	sizes := map[string]int64{} // size of each file, and of each folder with its contents
	var order []string
	err := fs.WalkDir(d.FS(), name, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := path.Base(p); p != name && (base[0] == '.' || base == "node_modules") {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(p, name), "/")
		if p == name || name == "." && strings.Count(p, "/") < 2 || name != "." && strings.Count(rel, "/") < 2 {
			order = append(order, p)
		}
		if e.IsDir() {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		for at := p; ; at = path.Dir(at) {
			sizes[at] += info.Size()
			if at == name || at == "." {
				return nil
			}
		}
	})
	lines := make([]string, len(order))
	for i, p := range order {
		lines[i] = human(sizes[p]) + "\t" + shown(p)
	}
	return strings.Join(lines, "\n"), err
}

func human(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%dB", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1fK", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1fM", float64(n)/(1<<20))
}

// numbered returns a text with line numbers. If lines is set, it has the first and the last line to return; a last line
// of -1 means the end.
func numbered(text string, lines []int) (string, error) {
	all := strings.Split(text, "\n")
	first, last := 1, len(all)
	if lines != nil {
		if len(lines) != 2 || lines[0] < 1 || lines[0] > len(all) || lines[1] != -1 && (lines[1] < lines[0] ||
			lines[1] > len(all)) {
			return "", failf("Error: Invalid `view_range` parameter: %v. It should be two lines within the range of lines "+
				"of the file: [1, %d]", lines, len(all))
		}
		first = lines[0]
		if lines[1] != -1 {
			last = lines[1]
		}
	}
	var b strings.Builder
	for i := first; i <= last; i++ {
		// A carriage return or a Unicode line separator could look like the start of an unnumbered
		// line.
		line := strings.NewReplacer("\r", "\\r", "\u2028", "\\u2028", "\u2029", "\\u2029", "\u0085",
			"\\u0085").Replace(all[i-1])
		fmt.Fprintf(&b, "%6d\t%s\n", i, line)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// occurrences returns the numbers of the lines in which a string begins.
func occurrences(text, s string) (lines []int) {
	for at := 0; ; {
		i := strings.Index(text[at:], s)
		if i < 0 {
			return lines
		}
		lines = append(lines, strings.Count(text[:at+i], "\n")+1)
		at += i + len(s)
	}
}
