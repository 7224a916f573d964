package ipvs

import "strings"

// word is a part of a line between blanks, and where it begins, from 1.
type word struct {
	text   string
	column int
}

// splitWords splits a line as ipvsadm does: at blanks, without quotes or
// escapes. It appends to words.
func splitWords(words []word, line string) []word {
	for i := 0; i < len(line); {
		if blank(line[i]) {
			i++
			continue
		}
		begin := i
		for i < len(line) && !blank(line[i]) {
			i++
		}
		words = append(words, word{line[begin:i], begin + 1})
	}
	return words
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// argument is an option as it was given, with its value.
type argument struct {
	option *option
	column int
	value  word // of an option that has one; without text where it may be left out
}

// splitOptions reads the options of a line the way popt(3) does for ipvsadm:
// -w 5, -w5, -w=5, --weight 5, --weight=5, and flags in one word such as -Ao. It
// appends to args what it could read and gives every fault to report.
func splitOptions(args []argument, words []word, report func(column int, message string)) []argument {
	for i := 0; i < len(words); i++ {
		w := words[i]
		// unknown reports an option, and passes over what is likely its value.
		unknown := func(column int, name string) {
			report(column, "unknown option "+quote(name))
			if i+1 < len(words) && words[i+1].text[0] != '-' && words[i+1].text[0] != '#' {
				i++
			}
		}
		// next takes the word after this one as the value of o.
		next := func(o *option, column int) argument {
			a := argument{option: o, column: column}
			switch {
			case i+1 < len(words) && !looksLikeOption(words[i+1].text):
				i++
				a.value = words[i]
			case o.value == needsValue:
				a.option = nil
				report(column, o.String()+" needs a value: "+o.wants)
			}
			return a
		}
		switch {
		case strings.HasPrefix(w.text, "--") && len(w.text) > 2:
			name, value, joined := strings.Cut(w.text[2:], "=")
			o := longOption(name)
			switch {
			case o == nil:
				if joined {
					report(w.column, "unknown option "+quote("--"+name))
				} else {
					unknown(w.column, "--"+name)
				}
			case o.value == noValue && joined:
				report(w.column, o.String()+" takes no value")
			case o.value == noValue:
				args = append(args, argument{option: o, column: w.column})
			case joined:
				args = append(args, argument{o, w.column, word{value, w.column + 2 + len(name) + 1}})
			default:
				if a := next(o, w.column); a.option != nil {
					args = append(args, a)
				}
			}
		case strings.HasPrefix(w.text, "-") && len(w.text) > 1 && w.text != "--":
			for at := 1; at < len(w.text); at++ {
				o, column := shortOption(w.text[at]), w.column+at
				if at == 1 {
					column = w.column // of the dash
				}
				if o == nil {
					unknown(column, "-"+w.text[at:at+1])
					break
				}
				if o.value == noValue {
					args = append(args, argument{option: o, column: column})
					continue
				}
				if rest := strings.TrimPrefix(w.text[at+1:], "="); at+1 < len(w.text) {
					args = append(args, argument{o, column, word{rest, w.column + len(w.text) - len(rest)}})
				} else if a := next(o, column); a.option != nil {
					args = append(args, a)
				}
				break
			}
		case w.text[0] == '#':
			report(w.column, "a comment has a line of its own")
			return args
		default:
			report(w.column, "unexpected argument "+quote(w.text))
		}
	}
	return args
}

// looksLikeOption says whether a word is no value: no value that any option
// takes begins with a dash, but a number may be meant to.
func looksLikeOption(text string) bool {
	return len(text) > 1 && text[0] == '-' && (text[1] < '0' || text[1] > '9' || text == "-6")
}
