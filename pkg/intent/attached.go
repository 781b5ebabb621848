package intent

import (
	"cmp"
	"iter"
	"path"
	"slices"
	"strings"

	"lazaret/pkg/shell"
	"lazaret/pkg/text"
)

// Words in names of tools and arguments by which a call sends files. An argument whose name ends with a word of
// noFileArgs does not name a file, but says its type or has its content.
var (
	handingOut = stemmedSet("upload forward transmit export redirect comment submit attach")
	fileArgs   = stemmedSet("attach attachment attached enclosure file filename path filepath document doc image " +
		"photo media upload")
	attachArgs = stemmedSet("attach attachment attached enclosure")
	noFileArgs = stemmedSet("type kind format mime encoding size disposition content data body text caption description " +
		"base64 inline")
	folderWords = Words(strings.Fields("folder directory"))
)

// sends reports whether the name of a tool says that it sends something to somebody.
func (c *Call) sends(tool string) bool {
	return slices.Contains(c.Act, Hash("act:send")) ||
		!c.reads() && slices.ContainsFunc(SplitName(tool), func(w string) bool {
			return handingOut[Hash(Stem(w))] || slices.Contains(means[Stem(w)], deeds["send"])
		})
}

// reads reports whether the name of a tool says that it changes nothing.
func (c *Call) reads() bool {
	return slices.ContainsFunc(c.Act, func(h uint32) bool { return slices.Contains(reading, h) })
}

// sent yields the files that a call sends, with the value of the call that names each of them: paths, file URLs and, in
// arguments for files, also other names and ids.
func (c *Call) sent(tool string, carriers []text.Carrier) iter.Seq2[*Value, string] {
	return func(yield func(*Value, string) bool) {
		sends, reads := c.sends(tool), c.reads()
		for i := range c.Values {
			v := &c.Values[i]
			words := SplitName(v.Path)
			attached := !reads && slices.ContainsFunc(words, func(w string) bool { return attachArgs[Hash(Stem(w))] })
			file := attached || slices.ContainsFunc(words, func(w string) bool { return fileArgs[Hash(Stem(w))] })
			content := len(words) > 0 && noFileArgs[Hash(Stem(words[len(words)-1]))]
			if !sends && !attached || content && !attached {
				continue
			}
			if !content && v.Prose && !attached && !isList(v.Text) {
				continue
			}
			for item := range items(v.Text, content) {
				name := shell.LocalPath(item)
				file := file || strings.HasPrefix(strings.ToLower(item), "file:")
				secret := shell.SecretFile(item) && (file || !strings.ContainsAny(item, " \t"))
				switch {
				case name == "", strings.Contains(name, "@") && !strings.Contains(name, "/"):
					continue // a URL or a mail address
				case content && !secret && !strings.ContainsAny(name[:1], "/~."), (content || v.Prose) && !isName(name):
					continue
				case !secret && !file && !isPath(name, carriers), !attached && isID(name):
					// An id is the object of the act, such as the file_id of share_file. The rule another-object judges it.
					continue
				}
				if !yield(v, name) {
					return
				}
			}
		}
	}
}

// items yields the parts of an argument that may each name a file. If whole is set, only the whole argument may name
// one. As in curl, an @ before a path says that the file is meant.
func items(v string, whole bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		for item := range strings.FieldsFuncSeq(v, func(r rune) bool { return !whole && strings.ContainsRune(",;|\n", r) }) {
			item = strings.TrimSpace(item)
			if rest, ok := strings.CutPrefix(item, "@"); ok && strings.ContainsAny(rest, `/\~.`) {
				item = rest
			}
			if item != "" && !yield(item) {
				return
			}
		}
	}
}

// isList reports whether a text is a list of names, each without spaces.
func isList(v string) bool {
	for item := range items(v, false) {
		if strings.ContainsAny(item, " \t") {
			return false
		}
	}
	return true
}

// isName reports whether a word of a running text must be the name or the path of a file.
func isName(s string) bool {
	return !strings.ContainsAny(s, " \t\r\n") && (shell.SecretFile(s) || len(path.Ext(s)) > 2)
}

// SentSecret returns the path of the first argument that names a file with secrets and by which the call sends this
// file. It returns "" if there is none. named are the paths of the arguments that the user named; they do not count.
func (c *Call) SentSecret(tool string, named []string) string {
	for v, file := range c.sent(tool, nil) {
		if shell.SecretFile(file) && !slices.Contains(named, v.Path) {
			return cmp.Or(v.Path, ".")
		}
	}
	return ""
}

// relateAttached sets r.Attached. It also corrects r.Values: an argument with a file of secrets is in it only if the
// user's words have the name of this file.
func (s *Said) relateAttached(c *Call, r *Relation, tool string, carriers []text.Carrier) {
	var people []uint32
	for v, file := range c.sent(tool, carriers) {
		if people == nil {
			people = s.people()
		}
		secret := shell.SecretFile(file)
		named := secret && s.namesSecret(file) || !secret && s.namesFile(file, people)
		at := slices.Index(r.Values, v.Path)
		switch {
		case named && secret && at < 0:
			r.Values = append(r.Values, v.Path)
			slices.Sort(r.Values)
		case !named && secret && at >= 0:
			r.Values = slices.Delete(r.Values, at, at+1)
		}
		if !named && r.Attached == "" {
			r.Attached = cmp.Or(v.Path, ".")
		}
	}
	if len(c.Values) == maxValues && r.Attached == "" && c.sends(tool) {
		r.Attached = "." // there may be more arguments, which are not compared
	}
}

// isPath reports whether an argument's whole value is the path of a file.
func isPath(v string, carriers []text.Carrier) bool {
	if v == "" || !strings.ContainsAny(v[:1], "/~.") && path.Ext(v) == "" && !strings.Contains(v, `:\`) {
		return false
	}
	return shell.SecretFile(v) || slices.ContainsFunc(carriers, func(x text.Carrier) bool {
		return x.Kind == text.Path && (x.Value == v || x.Value == path.Clean(v))
	})
}

// isID reports whether a name is an id that a program gave, not a name that a person gave to a file.
func isID(name string) bool {
	return path.Ext(name) == "" && !strings.ContainsAny(name, `/~\`) && strings.ContainsAny(name, "0123456789") &&
		!shell.SecretFile(name)
}

// namesSecret reports whether the user's words have the whole name of a file with secrets. If the name is a single
// word, they must also have the folder, or the name as it is written.
func (s *Said) namesSecret(file string) bool {
	file = strings.ReplaceAll(file, `\`, "/")
	words := SplitName(path.Base(file))
	if len(words) < 2 {
		if Has(s.Words, dotFile(file)) {
			return true
		}
		words = append(words, SplitName(path.Base(path.Dir(file)))...)
	}
	return len(words) > 1 && !slices.ContainsFunc(words, func(w string) bool { return !Has(s.Words, Hash(Stem(w))) })
}

// dotFile returns the hash of the name of a hidden file, such as .env, or 0.
func dotFile(w string) uint32 {
	w = strings.TrimRight(strings.Trim(w, "()\"'`"), ".,;:!?")
	name := w[strings.LastIndexByte(w, '/')+1:]
	if len(name) < 3 || name[0] != '.' || name[1] == '.' {
		return 0
	}
	return Hash("\x00file" + name)
}

// namesFile reports whether the user's words name a file. They name it by one word of its name, unless this is a verb
// for what tools do; by all words of its name; or by its folder, if they also have the word folder. A file also counts
// as named if the agent knew it before it read anything external. An id also counts as named if a result that the agent
// looked up for a request has it.
func (s *Said) namesFile(file string, people []uint32) bool {
	v := readValue("", file)
	if len(v.Tokens) > 0 && (v.named(people) || v.named(s.Known)) || v.file != 0 && Has(s.Words, v.file) {
		return true
	}
	file = strings.ReplaceAll(file, `\`, "/")
	if isID(file) {
		return slices.ContainsFunc(s.Requests, func(q Ask) bool { return q.Full || v.named(q.Found) })
	}
	return touched(strings.TrimSuffix(path.Base(file), path.Ext(file)), people) ||
		Count(people, folderWords) > 0 && touched(path.Base(path.Dir(file)), people)
}

// touched reports whether words have one word of a name that is not a verb for what tools do, or all words of the
// name.
func touched(name string, words []uint32) bool {
	some, all := false, true
	for _, w := range SplitName(name) {
		s := Stem(w)
		if len(s) < 3 || dull[s] || strings.ContainsAny(s, "0123456789") {
			continue
		}
		has := Has(words, Hash(s))
		if has && acts[s] == "" && means[s] == nil {
			return true
		}
		some, all = true, all && has
	}
	return some && all
}
