package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/idna"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/internal/strictyaml"
	"lazaret/pkg/shell"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// maxEgressList is the maximum length of each list of the egress section.
const maxEgressList = 4096

// egressText is the section on the destinations of actions.
type egressText struct {
	Allow    *[]string `yaml:"allow"`
	Deny     []string  `yaml:"deny"`
	Unlisted string    `yaml:"unlisted"`
	Private  string    `yaml:"private"`
	Content  *[]string `yaml:"content"`
}

// egress says which destinations actions may reach. Use defaultEgress instead of the zero value.
type egress struct {
	listed   bool // there is an allow-list
	allow    places
	deny     places
	unlisted streams.Verdict // for destinations that are not on the allow-list
	private  streams.Verdict // for destinations that are not public and not allowed by name
	// content has the names of arguments that carry text for the receiver. Only the last word of an argument's name is
	// looked up in it. Addresses in such text are not destinations.
	content map[string]bool
}

// DefaultContent lists the arguments that have text for the receiver, such as the body of a mail,
// by the last words of their names. Addresses in such text are not destinations.
var DefaultContent = []string{
	"body", "text", "html", "markdown", "message", "content", "contents", "subject", "description", "comment",
	"note", "notes", "summary", "title", "prompt", "query", "question", "caption", "snippet",
}

func defaultEgress() egress {
	return egress{unlisted: streams.Hold, private: streams.Deny, content: contentWords(DefaultContent)}
}

func contentWords(words []string) map[string]bool {
	m := make(map[string]bool, len(words))
	for _, w := range words {
		m[w] = true
	}
	return m
}

func (p *Policy) compileEgress(y *strictyaml.Document, t *egressText) (err error) {
	p.egress = defaultEgress()
	if t == nil {
		return nil
	}
	g := &p.egress
	at := func(key string, format string, args ...any) error {
		return y.Errorf([]any{"egress", key}, format, args...)
	}
	if t.Allow != nil {
		g.listed = true
		if g.allow, err = compilePlaces(y, "allow", *t.Allow); err != nil {
			return err
		}
	}
	if g.deny, err = compilePlaces(y, "deny", t.Deny); err != nil {
		return err
	}
	switch t.Unlisted {
	case "", "hold":
	case "deny":
		g.unlisted = streams.Deny
	default:
		return at("unlisted", "`unlisted` is %q: use hold or deny", t.Unlisted)
	}
	if t.Unlisted != "" && !g.listed {
		return at("unlisted", "`unlisted` needs an allow-list: add `allow`")
	}
	switch t.Private {
	case "", "deny":
	case "hold":
		g.private = streams.Hold
	case "allow":
		g.private = streams.Allow
	default:
		return at("private", "`private` is %q: use deny, hold or allow", t.Private)
	}
	if t.Content != nil {
		for i, w := range *t.Content {
			if err := checkWord(w); err != nil {
				return y.Errorf([]any{"egress", "content", i}, "`content`: %w", err)
			}
		}
		g.content = contentWords(*t.Content)
	}
	return nil
}

// places is a set of hosts and networks.
type places struct {
	any      bool // the pattern *: every host name, but no address
	hosts    map[string]bool
	suffixes []string // .example.com for *.example.com
	nets     []netip.Prefix
}

func compilePlaces(y *strictyaml.Document, key string, list []string) (p places, err error) {
	if len(list) > maxEgressList {
		return p, y.Errorf([]any{"egress", key}, "%d destinations are too many, at most %d are possible", len(list),
			maxEgressList)
	}
	p.hosts = make(map[string]bool)
	for i, s := range list {
		if err := p.add(s); err != nil {
			return p, y.Errorf([]any{"egress", key, i}, "%s: %w", key, err)
		}
	}
	return p, nil
}

func (p *places) add(s string) error {
	if s == "*" {
		p.any = true
		return nil
	}
	if strings.Contains(s, "/") {
		n, err := netip.ParsePrefix(s)
		switch {
		case strings.Contains(s, "://"):
			return fmt.Errorf("%q is a URL: write its host, without scheme, port and path", s)
		case err != nil:
			return fmt.Errorf("%q is not a network: write 203.0.113.0/24 or 2001:db8::/32", s)
		case n.Masked() != n:
			return fmt.Errorf("%q has address bits after its prefix: write %s", s, n.Masked())
		case n.Addr().Is4In6():
			return fmt.Errorf("%q is an IPv4 network: write it in IPv4 notation", s)
		}
		p.nets = append(p.nets, n)
		return nil
	}
	if a, err := netip.ParseAddr(s); err == nil {
		if a.Zone() != "" || a.Is4In6() {
			return fmt.Errorf("%q: write the address without a zone, and an IPv4 address in IPv4 notation", s)
		}
		p.nets = append(p.nets, netip.PrefixFrom(a, a.BitLen()))
		return nil
	}
	if _, ok := text.ParseIP(s); ok {
		return fmt.Errorf("%q is an address in another notation: write it with four parts", s)
	}
	name, wild := strings.CutPrefix(s, "*.")
	if !plainHost(name) {
		return fmt.Errorf("%q is not a host: write api.example.com, *.example.com for all names below it, an address or a "+
			"network; names beyond ASCII in their xn-- form", s)
	}
	if wild {
		p.suffixes = append(p.suffixes, "."+name)
	} else {
		p.hosts[name] = true
	}
	return nil
}

// plainHost reports whether s is a host name in the form that policies use: lower case ASCII, no
// trailing dot.
func plainHost(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if c := label[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return false
			}
		}
	}
	return true
}

func (p *places) hasHost(h string) bool { return p.any || p.namesHost(h) }

// namesHost is like hasHost, but ignores the pattern *.
func (p *places) namesHost(h string) bool {
	return p.hosts[h] || slices.ContainsFunc(p.suffixes, func(s string) bool { return strings.HasSuffix(h, s) })
}

func (p *places) hasAddr(a netip.Addr) bool {
	return slices.ContainsFunc(p.nets, func(n netip.Prefix) bool { return n.Contains(a) })
}

// within reports whether a network of the list contains a and lies within block. A listed network
// that is larger than the block does not count, because whoever listed it did not name the block.
func (p *places) within(a netip.Addr, block netip.Prefix) bool {
	return slices.ContainsFunc(p.nets, func(n netip.Prefix) bool {
		return n.Contains(a) && n.Bits() >= block.Bits() && block.Contains(n.Addr())
	})
}

// block is a network that is not public.
type block struct {
	net  netip.Prefix
	what string
	// meta marks metadata services, from which machines get their credentials.
	meta bool
}

// blocks are the networks that are denied unless the policy names a part of them, narrower ones
// first. They are taken from the IANA special-purpose registries (RFC 6890), without the
// documentation ranges.
var blocks = func() (out []block) {
	for _, b := range []struct {
		net, what string
		meta      bool
	}{
		{"169.254.169.254/32", "a metadata service", true},
		{"169.254.170.2/32", "a metadata service", true},
		{"100.100.100.200/32", "a metadata service", true},
		{"168.63.129.16/32", "a metadata service", true},
		{"192.0.0.192/32", "a metadata service", true},
		{"fd00:ec2::254/128", "a metadata service", true},
		{"fd20:ce::254/128", "a metadata service", true},
		{"169.254.0.0/16", "link-local", true},
		{"fe80::/10", "link-local", true},
		{"127.0.0.0/8", "this machine", false},
		{"::1/128", "this machine", false},
		{"0.0.0.0/8", "this machine", false},
		{"::/128", "this machine", false},
		{"10.0.0.0/8", "a private network", false},
		{"172.16.0.0/12", "a private network", false},
		{"192.168.0.0/16", "a private network", false},
		{"100.64.0.0/10", "a carrier's private network", false},
		{"fc00::/7", "a private network", false},
		{"fec0::/10", "a private network", false},
		{"192.0.0.0/24", "a reserved network", false},
		{"198.18.0.0/15", "a test network", false},
		{"224.0.0.0/4", "a multicast address", false},
		{"ff00::/8", "a multicast address", false},
		{"240.0.0.0/4", "a reserved network", false},
	} {
		out = append(out, block{netip.MustParsePrefix(b.net), b.what, b.meta})
	}
	return out
}()

// innerHosts are host names of non-public networks, and of public services that resolve a name to
// whatever address is written in the name, such as 10.0.0.1.nip.io. metaHosts are host names of
// metadata services.
var innerHosts, metaHosts = func() (inner, meta places) {
	inner.hosts, meta.hosts = map[string]bool{}, map[string]bool{}
	for _, h := range strings.Fields(
		`localhost *.localhost localhost.localdomain ip6-localhost ip6-loopback *.local *.internal *.intranet
		*.private *.lan *.corp *.home *.home.arpa *.localdomain *.svc *.cluster.local host.docker.internal
		*.nip.io nip.io *.sslip.io sslip.io *.xip.io *.localtest.me localtest.me *.lvh.me lvh.me *.vcap.me vcap.me`) {
		if err := inner.add(h); err != nil {
			panic(err)
		}
	}
	for _, h := range strings.Fields(
		`metadata metadata.google.internal metadata.goog *.metadata.goog instance-data instance-data.ec2.internal
		metadata.azure.internal metadata.platformequinix.com metadata.packet.net`) {
		if err := meta.add(h); err != nil {
			panic(err)
		}
	}
	return inner, meta
}()

// inside returns the IPv4 address that a transition mechanism embeds in an IPv6 address. A
// connection to the IPv6 address may reach the IPv4 address.
func inside(a netip.Addr) netip.Addr {
	if !a.Is6() {
		return a
	}
	b := a.As16()
	v4 := func(i int) netip.Addr { return netip.AddrFrom4([4]byte(b[i : i+4])) }
	switch {
	case a.Is4In6():
		return a.Unmap()
	case nat64.Contains(a), nat64Local.Contains(a), compat.Contains(a) && b[12] != 0:
		return v4(12)
	case sixToFour.Contains(a):
		return v4(2)
	case teredo.Contains(a):
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
	}
	return a
}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")
	compat     = netip.MustParsePrefix("::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	teredo     = netip.MustParsePrefix("2001::/32")
)

// destination is a host or address that an action may reach.
type destination struct {
	host string     // in the form of plainHost if possible; empty for an address
	addr netip.Addr // as written, but IPv4-mapped addresses as IPv4
	mail bool       // from an e-mail address
	// url is set if the destination is in a URL or in a path such as //host/share. It is also set if the destination is
	// the value of an argument that names hosts, and is an address or a name with a dot.
	url bool
}

func (d destination) String() string {
	if d.host != "" {
		return text.InertLine(d.host, 120)
	}
	return d.addr.String()
}

// destinationOf parses a host or an address, with or without a port.
func destinationOf(s string) (d destination, ok bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	if a, ok := text.ParseIP(s); ok {
		return destination{addr: a}, true
	}
	if h, rest, found := strings.Cut(strings.TrimPrefix(s, "["), "]"); found && strings.HasPrefix(s, "[") &&
		(rest == "" || rest[0] == ':') {
		if a, ok := text.ParseIP(h); ok {
			return destination{addr: a}, true
		}
		return d, false
	}
	if h, port, found := strings.Cut(s, ":"); found {
		if strings.Trim(port, "0123456789") != "" {
			return d, false
		}
		s = h
	}
	s = strings.TrimRight(s, ".")
	if a, ok := text.ParseIP(s); ok {
		return destination{addr: a}, true
	}
	if ascii, err := idna.Lookup.ToASCII(s); err == nil {
		s = ascii
	}
	if s == "" || len(s) > 253 || strings.ContainsAny(s, " \t\r\n/\\@?#\"'<>|;&()${}") {
		return d, false
	}
	if a, ok := text.ParseIP(s); ok { // the address was in full-width digits
		return destination{addr: a}, true
	}
	return destination{host: s}, true
}

// reach is how much of an action's arguments is checked for destinations.
type reach uint8

const (
	reachMeta reach = iota // metadata services only
	reachURLs              // URLs and arguments for hosts
	reachAll               // every address and name
)

// effectsUnknown reports whether the policy does not say what the action does: it names no effects,
// and the level is above L1. The action is then checked as if it could have every effect.
func (c *Class) effectsUnknown() bool { return len(c.Effects) == 0 && c.Level >= beliefs.L2 }

// reachOf returns the reach for the effects of an action.
func reachOf(c *Class) reach {
	switch {
	case c.effectsUnknown(), c.Has(EffectEgress), c.Has(EffectPublish), c.Has(EffectExec):
		return reachAll
	case len(c.Effects) == 0, c.Has(EffectRead):
		return reachURLs
	}
	return reachMeta
}

// loopback reports whether the destination is this machine, and the text names it as localhost or by a loopback address
// in its usual form. Other names and forms that lead to this machine (2130706433, 0.0.0.0, 127.0.0.1.nip.io) do not
// count.
func (d destination) loopback(text string) bool {
	return d.host == "localhost" || d.addr.IsLoopback() && strings.Contains(text, d.addr.String())
}

// taskRunners are programs whose arguments are names of tasks and files, not of hosts.
var taskRunners = text.Set("cargo npm pnpm yarn make just rake gradle poetry uv hatch pdm tox nox bazel")

// task reports whether the destination is a whole word without a dot of a command line that starts one of taskRunners,
// and no program that connects to the hosts in its arguments.
func (d destination) task(line string) bool {
	words, ok := shell.Words(line)
	return ok && !shell.Connects(line) && !d.url && d.host != "" && !strings.Contains(d.host, ".") &&
		taskRunners[words[0]] && slices.Contains(words[1:], d.host)
}

// denies reports whether the policy denies a destination by name.
func (g *egress) denies(d destination) bool {
	return g.deny.hasAddr(d.addr) || d.addr.IsValid() && g.deny.hasAddr(inside(d.addr)) ||
		d.host != "" && g.deny.hasHost(d.host)
}

// judge returns the verdict on one destination, with the reason.
func (g *egress) judge(d destination, r reach) (v streams.Verdict, why string) {
	if g.denies(d) {
		return streams.Deny, "the policy denies it"
	}
	if !d.mail {
		if v, why = g.inner(d, r); v > streams.Allow {
			return v, why
		}
	}
	if !g.listed || r == reachMeta || d.host != "" && !strings.Contains(d.host, ".") && !d.url {
		return streams.Allow, ""
	}
	if d.addr.IsValid() && g.allow.hasAddr(d.addr) || d.host != "" && g.allow.hasHost(d.host) {
		return streams.Allow, ""
	}
	return g.unlisted, "it is not on the policy's allow-list"
}

// inner returns the verdict on a destination that is not public, with the reason. It allows public
// ones.
func (g *egress) inner(d destination, r reach) (streams.Verdict, string) {
	if d.host != "" {
		switch {
		case g.allow.namesHost(d.host):
		case metaHosts.hasHost(d.host):
			return g.private, "it is a metadata service"
		case r == reachMeta:
		case innerHosts.hasHost(d.host):
			return g.private, "it is a name of this machine or of a private network"
		case d.url && !strings.Contains(d.host, "."):
			return g.private, "a name without a domain is one of the private network"
		}
		return streams.Allow, ""
	}
	for _, a := range []netip.Addr{d.addr, inside(d.addr)} {
		for _, b := range blocks {
			if !b.net.Contains(a) || r == reachMeta && !b.meta {
				continue
			}
			if g.allow.within(a, b.net) {
				break // the narrowest block that contains the address decides
			}
			return g.private, "it is " + b.what
		}
	}
	return streams.Allow, ""
}

// AdmitsMetadata reports whether the policy allows actions to reach a metadata service, from which
// machines get their credentials.
func (p *Policy) AdmitsMetadata() bool {
	for _, b := range blocks {
		if v, _ := p.egress.judge(destination{addr: b.net.Addr(), url: true}, reachMeta); b.meta && b.net.IsSingleIP() &&
			v == streams.Allow {
			return true
		}
	}
	return false
}
