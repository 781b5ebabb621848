package intent

import (
	"slices"

	"lazaret/pkg/text"
)

// If a tool's name does not begin with its verb, the words of this file tell the verb from the nouns. They are part
// of the policy language: changing them changes the meaning of policies.
var (
	// things are nouns that are hardly ever verbs.
	things = text.Set(`account accounts address addresses agenda agendas app application applications apps appointment
		appointments article articles asset assets attachment attachments booking bookings budget budgets calendar calendars
		cart carts case cases catalog catalogue category categories channel channels chat chats client clients community
		company contract contracts conversation conversations country course courses credit currency customer customers
		database day days department departments deployment deployments desk device devices directory document documents
		domain domains employee employees entry entries event events expense expenses feature features file files flight
		flights folder folders goods group groups guest guests hotel hotels image images incident incidents inventory
		invoices item items jobs ledger library loans location locations machine machines meeting meetings member members
		membership memberships menu menus metric metrics money month months network networks nodes notebook notebooks
		number numbers offer offers orders organisation organisations organization organizations page pages parcel
		parcels part parts participant participants partner partners patient patients person photo photos pipeline
		pipelines player playlist portfolio position positions price prices product products profile profiles project
		projects property quota quotes rates receipt receipts region regions repo repos repository repositories
		reservation reservations resource resources restaurant restaurants result results role roles room rooms row rows
		sale sales schema season seat seats server servers service services session sessions sheet sheets shipment shipments
		shop site sites sku slot slots space spaces stocks student students subscription subscriptions supplier suppliers
		system table tables task tasks team teams template templates tenant tenants thread threads ticket tickets time token
		tokens transaction transactions trip trips user users vehicle vehicles vendor vendors voucher vouchers wallet wallets
		warehouse warehouses weather week weeks year years zone zones envelope envelopes sprint sprints epic epics board
		boards backlog milestone milestones logs monitors dashboard dashboards pod pods cluster clusters instance instances
		bucket buckets queue queues environment environments commits releases branches tags issues leads deals campaign
		campaigns survey surveys holidays shifts vulnerability vulnerabilities artifact artifacts
		package packages dependencies`)
	// kept are nouns for records that systems keep, although they can be verbs (order_show, return_label_create).
	// Left out are nouns for messages, and verbs that take a show or a list as their object: email_list, book_show.
	kept = text.Set(`order invoice payment payments bill loan claim trade bid job return request issue quote plan stock
		workflow branch`)
	// marks are nouns for something that is attached to a thing, although they can be verbs.
	marks = text.Set("label tag note record log link comment bookmark")
	// shown are reading verbs that are verbs, not nouns, after a noun of kept. Left out is check, which can be a noun:
	// issue_check.
	shown = text.Set("show list view describe inspect browse count verify validate peek")
	// states are nouns at the end of a name that consists of nouns. Such a tool only reads.
	states = text.Set("history status stats statistics info details metadata availability balance eta summary overview")
	// measured are words before "report" and "log" that say what was measured. Of an incident or a user, report may be a
	// verb.
	measured = text.Set(`sprint sales usage cost costs coverage performance weekly monthly daily quarterly annual yearly
		revenue traffic velocity burndown budget inventory activity audit attendance system error access`)
	// mayAct are nouns that can be the verb of a name if they begin it and a noun follows: offer_deals. The words of
	// kept can be the verb in the same way: order_packages.
	mayAct = text.Set("offer contract credit expense price budget page file address access")
	// watching are reading verbs that can be nouns at the beginning of a name: monitor_mute, check_void.
	watching = text.Set(`monitor check track review watch count query search view alert test scan survey poll list
		inspect verify validate preview observe`)
	// actsLast are verbs that are hardly ever nouns, so that they act at the end of a name.
	actsLast = text.Set(`void expire forget mute unmute reroute reassign requeue rerun reindex relabel rebalance rescale
		resize dismiss suppress defer postpone expedite prioritize acknowledge unpin unstar unarchive undelete unmark
		untag snooze reopen`)
	// actsNext are verbs that act directly after a word of watching. Further behind they are nouns: check_door_lock.
	actsNext = text.Set("replay close drain scale lock trigger start stop")
	// between are prepositions between the nouns of a name: parts_for, slots_for_day.
	between = text.Set("for of by per")
	// opened are nouns for things that a tool opens to read them. Opening a thread, an account or a ticket makes a
	// new one.
	opened = text.Set(`notebook page document doc file folder note message mail email letter article book attachment
		report sheet spreadsheet pdf image photo map calendar inbox link url website site tab`)
	// makes are changing verbs that come last in a name such as return_label_create.
	makes = text.Set(`create add update edit modify change replace set insert append rename move copy archive assign save
		print generate download`)
)

// IsNoun reports whether w, as the first word of a tool's name, is a noun.
func IsNoun(w string) bool { return things[w] || kept[w] || measured[w] }

func all(words []string, is func(w string) bool) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !is(w) })
}

// ShownLast reports whether a tool's name consists of nouns and a reading verb at the end: order_show. method has
// the words of the name without its namespace.
func ShownLast(method []string) bool {
	last := len(method) - 1
	return last > 0 && shown[method[last]] && all(method[:last], IsNoun)
}

// States reports whether a tool's name consists of nouns for something that is only read: price_history, parts_for.
// method has the words of the name without its namespace, and space is the last word of the namespace, or "".
func States(space string, method []string) bool {
	last := len(method) - 1
	if last < 0 {
		return false
	}
	if states[method[last]] {
		return all(method[:last], IsNoun) && (last > 0 || IsNoun(space))
	}
	if last > 0 && method[last] == "logs" && all(method[:last], IsNoun) {
		return true
	}
	if w := method[last]; last > 0 && (w == "report" || w == "reports" || w == "log" || w == "logs") {
		return all(method[:last], func(w string) bool { return measured[w] })
	}
	if last > 0 && (kept[method[0]] || mayAct[method[0]]) {
		return false // order_packages may order them
	}
	if (last > 0 || space != "") && Several([]byte(method[last])) && all(method, IsNoun) {
		return true // okta.logs, order_items
	}
	at := slices.IndexFunc(method, func(w string) bool { return between[w] })
	thing := func(w string) bool { return things[w] }
	return at > 0 && all(method[:at], thing) && all(method[at+1:], thing)
}

// Several reports whether w is the plural of a noun that is hardly ever a verb.
func Several(w []byte) bool {
	return len(w) > 3 && w[len(w)-1] == 's' && w[len(w)-2] != 's' && things[string(w)]
}

// ActsAfterNoun reports whether a tool's name (without its namespace) that has these first and last words begins with a
// reading verb that can be a noun, and ends with a verb that changes something: monitor_mute, check_void. next is set
// if no word is between the two.
func ActsAfterNoun(first, last []byte, next bool) bool {
	f, l := string(first), string(last)
	return watching[f] && (actsLast[l] || next && (actsNext[l] || l == "page" && (f == "monitor" || f == "alert")))
}

// ActLast reports whether the last word of a tool's name is its verb, although the word can be a noun: ticket_tag.
func ActLast(method []string) bool {
	last := len(method) - 1
	return last > 0 && all(method[:last], func(w string) bool { return things[w] })
}

// Describes reports whether the i-th word of a tool's name can be a verb, but is a noun that describes the next one.
// In return_label_create, return is such a word: the name puts its verb last.
func Describes(method []string, i int) bool {
	last := len(method) - 1
	return i+1 < last && kept[method[i]] && makes[method[last]] && all(method[i+1:last], func(w string) bool {
		return IsNoun(w) || marks[w]
	})
}

// opens reports whether a tool's name says that the tool opens something to read it: notebook.open, open_page.
func opens(method []string, space string) bool {
	switch len(method) {
	case 1:
		return method[0] == "open" && opened[space]
	case 2:
		return method[0] == "open" && opened[method[1]] || method[1] == "open" && opened[method[0]]
	}
	return false
}
