package rules

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"lazaret/pkg/internal/strictyaml"
)

// Shipped is a value of `extends` in groups.yaml. With it, a rule set is added to the shipped one.
const Shipped = "shipped"

// PackDir packs a folder like Pack. If the folder's groups.yaml has `extends: shipped`, the bundle also contains the
// shipped packs. Each group then uses the packs that the folder or the shipped set lists for it. The folder cannot
// replace the shipped common.yaml or a shipped pack. Only the folder's exceptions.yaml is used.
func PackDir(dir string, shipped fs.FS) ([]byte, error) {
	if _, err := os.ReadDir(dir); err != nil {
		return nil, err
	}
	over := os.DirFS(dir)
	own, err := readGroups(over)
	if errors.Is(err, fs.ErrNotExist) || err == nil && own.Extends == "" {
		return Pack(over)
	}
	if err != nil {
		return nil, err
	}
	if own.Extends != Shipped {
		return nil, fmt.Errorf("groups.yaml: extends is %q: only %s can be extended", own.Extends, Shipped)
	}
	base, err := readGroups(shipped)
	if err != nil {
		return nil, err
	}
	replace := make(map[string]string)
	err = fs.WalkDir(over, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".yaml" || name == groupsFile {
			return err
		}
		top, _, _ := strings.Cut(name, "/")
		if _, err := fs.Stat(shipped, top); err == nil && top == CommonFile {
			return fmt.Errorf("%s: the shipped rules have a file of this name: put your lists, macros and signals into the "+
				"files of your pack", name)
		} else if err == nil {
			return fmt.Errorf("%s: pack %s is shipped: give yours another name, and change a shipped rule by %s",
				name, top, ExceptionsFile)
		}
		text, err := fs.ReadFile(over, name)
		replace[name] = string(text)
		return err
	})
	if err != nil {
		return nil, err
	}
	var groups strings.Builder
	groups.WriteString("groups:\n")
	for _, g := range slices.Sorted(maps.Keys(own.Groups)) {
		for _, pack := range own.Groups[g] {
			if !slices.Contains(base.Groups[g], pack) {
				base.Groups[g] = append(base.Groups[g], pack)
			}
		}
	}
	for _, g := range slices.Sorted(maps.Keys(base.Groups)) {
		fmt.Fprintf(&groups, "  %q:\n", g)
		for _, pack := range base.Groups[g] {
			fmt.Fprintf(&groups, "    - %q\n", pack)
		}
	}
	replace[groupsFile] = groups.String()
	return PackWith(shipped, replace)
}

func readGroups(fsys fs.FS) (*GroupsDoc, error) {
	text, err := fs.ReadFile(fsys, groupsFile)
	if err != nil {
		return nil, err
	}
	doc, err := strictyaml.Parse(groupsFile, text)
	if err != nil {
		return nil, err
	}
	var g GroupsDoc
	return &g, doc.Decode(&g)
}
