package connectors

// IsDate reports whether text begins with a date of the calendar, from the year 1 to 9999: 2026-01-30. Zero, partial and
// invalid dates are none, nor are infinity, years before Christ and those of five digits.
func IsDate(text []byte) bool {
	year, ok1 := number(text, 0, 4)
	month, ok2 := number(text, 5, 2)
	day, ok3 := number(text, 8, 2)
	if !ok1 || !ok2 || !ok3 || text[4] != '-' || text[7] != '-' || year == 0 || month == 0 || month > 12 || day == 0 {
		return false
	}
	if len(text) >= 3 && string(text[len(text)-2:]) == "BC" || len(text) > 10 && text[10] != 'T' && text[10] != ' ' {
		return false
	}
	days := [...]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[month-1]
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		days = 29
	}
	return day <= days
}

// number reads n digits at a place.
func number(text []byte, at, n int) (value int, ok bool) {
	if len(text) < at+n {
		return 0, false
	}
	for _, c := range text[at : at+n] {
		if c-'0' > 9 {
			return 0, false
		}
		value = value*10 + int(c-'0')
	}
	return value, true
}
