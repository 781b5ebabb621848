package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/tailscale/hujson"
)

// Server is an MCP server in a host's configuration.
type Server struct {
	Name    string   // including its folder, if the host has servers per folder
	Command string   // empty if the host uses HTTP
	Args    []string // arguments of the command
	URL     string   // set if the host reaches the server by HTTP and lazaret mcp can do so in its place
	Why     string   // set if the host reaches the server by HTTP and lazaret mcp cannot: the reason
}

// span is a range of a file.
type span struct{ from, to int }

// found is a server with the positions of its values.
type found struct {
	Server
	command, args span // args is empty if there are none
	entry         span // the member "command" or the URL's member: its key and value
	kind          span // the value of the member "type"; empty if there is none
}

// splice is a replacement of a span.
type splice struct {
	span
	with []byte
}

// rewire replaces each server of a configuration b by the server that change returns. If change returns false, the
// server stays as it is. All other bytes stay unchanged. rewire also returns the servers that it did not change.
func rewire(file File, b []byte, change func(Server) (Server, bool)) ([]byte, error) {
	list, err := servers(file, b)
	if err != nil {
		return nil, err
	}
	var want []Server
	var edits []splice
	for _, f := range list {
		to, ok := f.Server, false
		if f.Command != "" || f.URL != "" {
			to, ok = change(f.Server)
		}
		if !ok {
			want = append(want, f.Server)
			continue
		}
		want = append(want, to)
		if f.URL != "" || to.URL != "" {
			e, err := file.swap(b, f, to)
			if err != nil {
				return nil, err
			}
			edits = append(edits, e...)
			continue
		}
		command, err := json.Marshal(to.Command)
		if err != nil {
			return nil, err
		}
		args, err := array(to.Args)
		if err != nil {
			return nil, err
		}
		if f.args == (span{}) {
			key := `, "args": `
			if file.TOML {
				key = "\nargs = "
			}
			command, args = slices.Concat(command, []byte(key), args), nil
		}
		edits = append(edits, splice{f.command, command})
		if args != nil {
			edits = append(edits, splice{f.args, args})
		}
	}
	slices.SortFunc(edits, func(a, b splice) int { return b.from - a.from })
	out := slices.Clone(b)
	for _, e := range edits {
		out = slices.Replace(out, e.from, e.to, e.with...)
	}
	// Parse the edited file again, so that an unsupported format causes an error and no change.
	again, err := servers(file, out)
	if err != nil {
		return nil, fmt.Errorf("the edited file cannot be parsed: %w: the file was not changed", err)
	}
	for i := range again {
		if len(again) != len(want) || !reflect.DeepEqual(normal(again[i].Server), normal(want[i])) {
			return nil, errors.New("its format cannot be edited safely: the file was not changed")
		}
	}
	return out, nil
}

// swap replaces the URL of a server by a command, or the other way round.
func (file File) swap(b []byte, f found, to Server) ([]splice, error) {
	unsafe := errors.New("its format cannot be edited safely: the file was not changed")
	pair := func(key string, value []byte) []byte {
		if file.TOML {
			return append([]byte(key+" = "), value...)
		}
		return append([]byte(`"`+key+`": `), value...)
	}
	at, kind := f.entry, "stdio"
	var with []byte
	if to.URL == "" {
		if f.URL == to.URL || f.args != (span{}) {
			return nil, unsafe
		}
		command, err := array([]string{to.Command})
		if err != nil {
			return nil, err
		}
		args, err := array(to.Args)
		if err != nil {
			return nil, err
		}
		separator := ", "
		if file.TOML {
			separator = "\n"
		}
		with = slices.Concat(pair("command", bytes.Trim(command, "[]")), []byte(separator), pair("args", args))
	} else {
		if f.URL == to.URL {
			return nil, nil
		}
		if f.args.from < f.command.to || strings.Trim(string(b[f.command.to:f.args.from]), " \t\r\n,\":=") != "args" {
			return nil, unsafe
		}
		url, err := array([]string{to.URL})
		if err != nil {
			return nil, err
		}
		at.to, kind = f.args.to, "http"
		with = pair(file.urlKey(), url[1:len(url)-1])
	}
	edits := []splice{{at, with}}
	if f.kind != (span{}) {
		edits = append(edits, splice{f.kind, []byte(`"` + kind + `"`)})
	}
	return edits, nil
}

// urlKey returns the key under which the file has the URL of a server that uses Streamable HTTP.
func (file File) urlKey() string {
	if file.SSE {
		return "httpUrl"
	}
	return "url"
}

func normal(s Server) Server {
	s.Args = append([]string{}, s.Args...)
	return s
}

// array formats a list of strings in a syntax that is valid in JSON and TOML.
func array(texts []string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(append([]string{}, texts...)); err != nil {
		return nil, err
	}
	return bytes.ReplaceAll(bytes.TrimSpace(b.Bytes()), []byte(`","`), []byte(`", "`)), nil
}

func servers(file File, b []byte) ([]found, error) {
	if file.TOML {
		return tomlServers(b)
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, nil
	}
	root, err := hujson.Parse(b)
	if err != nil {
		return nil, err
	}
	list := file.jsonServers("", member(&root, file.Key))
	if file.ByFolder {
		if folders := member(&root, "projects"); folders != nil {
			for name, v := range members(folders) {
				list = append(list, file.jsonServers(name+": ", member(v, file.Key))...)
			}
		}
	}
	return list, nil
}

// members iterates over the members of a JSON object in order.
func members(v *hujson.Value) func(func(string, *hujson.Value) bool) {
	return func(yield func(string, *hujson.Value) bool) {
		o, ok := v.Value.(*hujson.Object)
		if !ok {
			return
		}
		for i := range o.Members {
			if name, ok := o.Members[i].Name.Value.(hujson.Literal); ok && !yield(name.String(), &o.Members[i].Value) {
				return
			}
		}
	}
}

// member returns the last member with the name, as JSON parsers do, or nil.
func member(v *hujson.Value, name string) (m *hujson.Value) {
	for n, v := range members(v) {
		if n == name {
			m = v
		}
	}
	return m
}

func (file File) jsonServers(prefix string, v *hujson.Value) (list []found) {
	if v == nil {
		return nil
	}
	for name, s := range members(v) {
		f := found{Server: Server{Name: prefix + name}}
		if c := member(s, "command"); c != nil {
			f.Command, f.command = text(c), span{c.StartOffset, c.EndOffset}
		}
		if a := member(s, "args"); a != nil {
			f.args = span{a.StartOffset, a.EndOffset}
			if arr, ok := a.Value.(*hujson.Array); ok {
				for i := range arr.Elements {
					f.Args = append(f.Args, text(&arr.Elements[i]))
				}
			}
		}
		if k := member(s, "type"); k != nil {
			f.kind = span{k.StartOffset, k.EndOffset}
		}
		f.entry.to = f.command.to
		if o, ok := s.Value.(*hujson.Object); ok {
			var url string
			var keys []string
			for i := range o.Members {
				key, value := text(&o.Members[i].Name), &o.Members[i].Value
				keys = append(keys, key)
				switch key {
				case "command":
					f.entry.from = o.Members[i].Name.StartOffset
				case "url", "httpUrl":
					url = text(value)
					if f.Command == "" {
						f.entry = span{o.Members[i].Name.StartOffset, value.EndOffset}
					}
				}
			}
			if f.Command == "" {
				f.reached(url, file.transport(member(s, "type"), keys), keys)
			}
		}
		list = append(list, f)
	}
	return list
}

// transport returns the name of a server's transport: "http" for Streamable HTTP.
func (file File) transport(kind *hujson.Value, keys []string) string {
	switch {
	case kind != nil && file.SSE, kind == nil && file.SSE && !slices.Contains(keys, "httpUrl"):
		return "sse"
	case kind == nil || slices.Contains([]string{"http", "streamable-http", "streamableHttp"}, text(kind)):
		return "http"
	}
	return text(kind)
}

// reached sets URL if lazaret mcp can reach a server that the host reaches by HTTP, and otherwise Why. lazaret mcp
// cannot reach it if the host signs in to the server or sends a secret, because only the host has the sign-in and the
// secret.
func (f *found) reached(url, transport string, keys []string) {
	own := slices.IndexFunc(keys, func(k string) bool {
		k = strings.ToLower(k)
		return strings.Contains(k, "header") || strings.Contains(k, "auth") || strings.Contains(k, "token")
	})
	switch {
	case !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://"):
		f.Why = "it has neither a command nor a URL of HTTP"
	case transport != "http":
		f.Why = "lazaret mcp cannot reach it by " + transport
	case own >= 0:
		f.Why = "the host signs in to it (" + keys[own] + ")"
	default:
		f.URL = url
	}
}

func text(v *hujson.Value) string {
	l, ok := v.Value.(hujson.Literal)
	if !ok || l.Kind() != '"' {
		return ""
	}
	return l.String()
}

// tomlServers returns the servers in the tables [mcp_servers.NAME] of Codex.
func tomlServers(b []byte) ([]found, error) {
	var doc struct {
		Servers map[string]struct {
			Command string   `toml:"command"`
			Args    []string `toml:"args"`
			URL     string   `toml:"url"`
		} `toml:"mcp_servers"`
	}
	var all struct {
		Servers map[string]map[string]any `toml:"mcp_servers"`
	}
	if err := errors.Join(toml.Unmarshal(b, &doc), toml.Unmarshal(b, &all)); err != nil {
		return nil, err
	}
	tables := all.Servers
	var list []found
	at := map[string]int{}
	place := func(name string) *found {
		i, ok := at[name]
		if !ok {
			i = len(list)
			at[name] = i
			s := doc.Servers[name]
			f := found{Server: Server{Name: name, Command: s.Command, Args: s.Args}}
			if s.Command == "" {
				f.reached(s.URL, "http", slices.Collect(maps.Keys(tables[name])))
			}
			list = append(list, f)
		}
		return &list[i]
	}
	p := &unstable.Parser{}
	p.Reset(b)
	var table []string
	for p.NextExpression() {
		e := p.Expression()
		keys, first, last := path(e)
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			if table = keys; len(keys) == 2 && keys[0] == "mcp_servers" {
				place(keys[1])
			}
		case unstable.KeyValue:
			whole := append(slices.Clone(table), keys...)
			if len(whole) != 3 || whole[0] != "mcp_servers" {
				continue
			}
			// The value follows the equals sign after the last key.
			from := int(last.Offset + last.Length)
			from += bytes.IndexByte(b[from:], '=') + 1
			from += len(b[from:]) - len(bytes.TrimLeft(b[from:], " \t"))
			value := span{from, int(e.Raw.Offset + e.Raw.Length)}
			value.to -= len(b[value.from:value.to]) - len(bytes.TrimRight(b[value.from:value.to], " \t"))
			switch f := place(whole[1]); whole[2] {
			case "command", "url":
				if f.entry = (span{int(first.Offset), value.to}); whole[2] == "command" {
					f.command = value
				}
			case "args":
				f.args = value
			}
		}
	}
	if err := p.Error(); err != nil {
		return nil, err
	}
	for name := range doc.Servers {
		if i, ok := at[name]; !ok || list[i].Command != "" && list[i].command == (span{}) {
			return nil, fmt.Errorf("mcp_servers.%s is an inline table: write it as [mcp_servers.%s]", name, name)
		}
	}
	return list, nil
}

// path returns the keys of an expression, and the positions of the first and the last one.
func path(e *unstable.Node) (keys []string, first, last unstable.Range) {
	for it := e.Key(); it.Next(); {
		if keys, last = append(keys, string(it.Node().Data)), it.Node().Raw; len(keys) == 1 {
			first = last
		}
	}
	return keys, first, last
}

// guarded reports whether a server is started by lazaret mcp.
func (s Server) guarded() bool { _, ok := s.bare(); return ok }

// bare returns the original server of a guarded one.
func (s Server) bare() (Server, bool) {
	name := s.Command[strings.LastIndexAny(s.Command, `/\`)+1:]
	sep := slices.Index(s.Args, "--")
	if !strings.HasPrefix(name, "lazaret") || len(s.Args) == 0 || s.Args[0] != "mcp" || sep < 0 || sep+1 >= len(s.Args) {
		return s, false
	}
	was := Server{Name: s.Name, Command: s.Args[sep+1], Args: s.Args[sep+2:]}
	if len(was.Args) == 0 && (strings.HasPrefix(was.Command, "https://") || strings.HasPrefix(was.Command, "http://")) {
		was.URL, was.Command = was.Command, ""
	}
	return was, true
}
