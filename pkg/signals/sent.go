package signals

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"lazaret/pkg/intent"
	"lazaret/pkg/shell"
	"lazaret/pkg/text"
)

// Last words of names of arguments, by what their values are.
var (
	lineArgs = wordSet("command commands cmd script shell bash commandline")
	textArgs = wordSet(`body text html markdown message content contents subject description comment note notes summary
		title prompt query question caption snippet data payload json`)
	addressArgs = wordSet("url urls uri href link links source src endpoint address host path file")
	receivers   = wordSet(`to cc bcc recipient recipients channel channels chat room thread user users member email phone
		conversation topic`)
)

func wordSet(words string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}

// maxSent limits the strings in the arguments of one action that are read for signed URLs and command lines.
const maxSent = 256

// sentBy says what the arguments of an action send.
type sentBy struct {
	lines bool // an argument is a command line that may send something to another machine
	// grant is the path of the first argument that may give access to others. It has a signed URL, and the action does
	// more than send it to the URL's own host. Or it has an access key ID of AWS outside of a signed URL of AWS.
	grant string
	// password is the path of an argument that is a URL with a password, if the arguments have no other secret.
	password string
}

// readSent reads the arguments of an action.
func readSent(args map[string]any) (out sentBy) {
	type value struct{ path, last, text string }
	var all []value
	var walk func(path, last string, v any, depth int)
	walk = func(path, last string, v any, depth int) {
		switch v := v.(type) {
		case string:
			if len(all) < maxSent {
				all = append(all, value{path, last, v})
			}
		case []any:
			for i, x := range v {
				if depth < maxArgsDepth {
					walk(path+"."+strconv.Itoa(i), last, x, depth+1)
				}
			}
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				words := intent.SplitName(k)
				if len(words) > 0 && lineArgs[strings.ToLower(words[len(words)-1])] {
					// The line may go on in another argument, such as args.
					if line, ok := shell.Line(v, k); ok && line != v[k] && len(all) < maxSent {
						all = append(all, value{strings.TrimPrefix(path+"."+k, "."), "command", line})
					}
				}
				if depth < maxArgsDepth && len(words) > 0 {
					walk(strings.TrimPrefix(path+"."+k, "."), strings.ToLower(words[len(words)-1]), v[k], depth+1)
				}
			}
		}
	}
	walk("", "", args, 0)
	told := false // an argument names a receiver
	for _, v := range all {
		out.lines = out.lines || lineArgs[v.last] && shell.Sends(v.text)
		told = told || receivers[v.last]
	}
	for _, v := range all {
		if !addressArgs[v.last] || told {
			continue
		}
		bare, passwords := text.WithoutPasswords(strings.TrimSpace(v.text))
		if len(passwords) == 0 || slices.ContainsFunc(append(passwords, bare), hasSecret) {
			continue
		}
		if !slices.ContainsFunc(all, func(w value) bool { return w != v && hasSecret(w.text) }) {
			out.password = v.path
			break
		}
	}
	for _, v := range all {
		rest := v.text
		for link, host := range text.SignedURLs(v.text) {
			rest = strings.ReplaceAll(rest, link, " ")
			own := false
			switch {
			case lineArgs[v.last]:
				own = shell.Fetches(v.text) && onlyHost(strings.ReplaceAll(v.text, link, host), host)
			case addressArgs[v.last] && strings.TrimSpace(v.text) == link && !told:
				own = true
				for _, w := range all {
					own = own && (w == v || textArgs[w.last] || onlyHost(w.text, host))
				}
			}
			if !own || text.HasAccessKeyID(link) && !ofAWS(host) {
				out.grant = v.path
				return out
			}
		}
		if text.HasAccessKeyID(rest) {
			out.grant = v.path
			return out
		}
	}
	return out
}

// ofAWS reports whether a host is one of AWS. Other hosts do not check signatures with the access keys of AWS. So the
// signature in a URL of another host may be the secret key in another form.
func ofAWS(host string) bool {
	return strings.HasSuffix(host, ".amazonaws.com") || strings.HasSuffix(host, ".amazonaws.com.cn")
}

// maxArgsDepth limits how deep arguments are read.
const maxArgsDepth = 16

// hasSecret reports whether a text has a secret.
func hasSecret(s string) bool {
	return slices.ContainsFunc(text.Analyze(s).Carriers, func(c text.Carrier) bool { return c.Kind == text.Secret })
}

// onlyHost reports whether a text names no host and no address but host.
func onlyHost(s, host string) bool {
	return !slices.ContainsFunc(text.Analyze(s).Carriers, func(c text.Carrier) bool {
		return (c.Kind == text.Host || c.Kind == text.IP) && c.Value != host
	})
}
