// Package intent determines how an action relates to what the user asked for in the session:
// whether the user asked for the act, and which values of its arguments and which sources the user
// named.
//
// It compares the stems of words, and the acts that verbs stand for, with synonyms. The same words
// and the same call give the same relation. It does not understand the user. A call that uses words
// which an attacker guessed gets the same relation as one that the user wants. Therefore rules use
// a relation as evidence, never as permission.
//
// It may import pkg/text. Begin reading with Relate in intent.go; requests.go tells the requests of
// one text apart, words.go has the words.
package intent
