// Package intent determines how an action relates to what the user asked for in the session:
// whether the user asked for the act, and which values of its arguments and which sources the user
// named.
//
// It compares the stems of words, with synonyms. An act is a kind of action for which several verbs
// stand, such as sending or creating. A deed is a narrower kind: booking a room and adding a member
// are both acts of creating, but different deeds. The things of a tool are the other words of its
// name: order in cancel_order. A value names a single thing if it tells one thing from others of
// its kind: a name of two words, a name with a number, an address.
//
// The same words and the same call give the same relation. The package does not understand the
// user. A call that uses words which an attacker guessed gets the same relation as one that the
// user wants. Therefore rules use a relation as evidence, never as permission.
//
// It may import pkg/text. Begin reading with Relate in intent.go; requests.go tells the requests of
// one text apart, words.go has the words.
package intent
