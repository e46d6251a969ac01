"""The countries of the world: names, capitals, continents, and well-known cities that are no capitals."""

from typing import NamedTuple


class Country(NamedTuple):
    """A country; the first name, capital and continent are the usual ones, the others pass as well."""

    names: tuple[str, ...]
    capitals: tuple[str, ...]
    continents: tuple[str, ...]
    # What has to be said beside the capital.
    note: str = ""


# names | capitals | continents | note, each with its other forms after "=".
TABLE = """\
Algeria | Algiers | Africa
Angola | Luanda | Africa
Benin | Porto-Novo | Africa
Botswana | Gaborone | Africa
Burkina Faso | Ouagadougou | Africa
Burundi | Gitega | Africa
Cape Verde = Cabo Verde | Praia | Africa
Cameroon | Yaoundé | Africa
the Central African Republic | Bangui | Africa
Chad | N'Djamena | Africa
the Comoros | Moroni | Africa
the Republic of the Congo = the Congo = Congo-Brazzaville | Brazzaville | Africa
DR Congo = the DR Congo = the Democratic Republic of the Congo = the DRC | Kinshasa | Africa
Djibouti | Djibouti = Djibouti City | Africa
Egypt | Cairo | Africa
Equatorial Guinea | Malabo | Africa
Eritrea | Asmara | Africa
Eswatini = Swaziland | Mbabane | Africa
Ethiopia | Addis Ababa | Africa
Gabon | Libreville | Africa
the Gambia | Banjul | Africa
Ghana | Accra | Africa
Guinea | Conakry | Africa
Guinea-Bissau | Bissau | Africa
Ivory Coast = Côte d'Ivoire | Yamoussoukro | Africa
Kenya | Nairobi | Africa
Lesotho | Maseru | Africa
Liberia | Monrovia | Africa
Libya | Tripoli | Africa
Madagascar | Antananarivo | Africa
Malawi | Lilongwe | Africa
Mali | Bamako | Africa
Mauritania | Nouakchott | Africa
Mauritius | Port Louis | Africa
Morocco | Rabat | Africa
Mozambique | Maputo | Africa
Namibia | Windhoek | Africa
Niger | Niamey | Africa
Nigeria | Abuja | Africa
Rwanda | Kigali | Africa
São Tomé and Príncipe | São Tomé | Africa
Senegal | Dakar | Africa
the Seychelles | Victoria | Africa
Sierra Leone | Freetown | Africa
Somalia | Mogadishu | Africa
South Africa | Pretoria | Africa | Parliament sits in Cape Town.
South Sudan | Juba | Africa
Sudan | Khartoum | Africa
Tanzania | Dodoma | Africa
Togo | Lomé | Africa
Tunisia | Tunis | Africa
Uganda | Kampala | Africa
Zambia | Lusaka | Africa
Zimbabwe | Harare | Africa
Afghanistan | Kabul | Asia
Armenia | Yerevan | Asia = Europe
Azerbaijan | Baku | Asia = Europe
Bahrain | Manama | Asia
Bangladesh | Dhaka | Asia
Bhutan | Thimphu | Asia
Brunei | Bandar Seri Begawan | Asia
Cambodia | Phnom Penh | Asia
China = the People's Republic of China | Beijing | Asia
East Timor = Timor-Leste | Dili | Asia
Georgia | Tbilisi | Asia = Europe
India | New Delhi = Delhi | Asia
Indonesia | Jakarta | Asia
Iran | Tehran | Asia
Iraq | Baghdad | Asia
Israel | Jerusalem | Asia | Not every country recognises this.
Japan | Tokyo | Asia
Jordan | Amman | Asia
Kazakhstan | Astana | Asia = Europe
Kuwait | Kuwait City | Asia
Kyrgyzstan | Bishkek | Asia
Laos | Vientiane | Asia
Lebanon | Beirut | Asia
Malaysia | Kuala Lumpur | Asia
the Maldives | Malé | Asia
Mongolia | Ulaanbaatar = Ulan Bator | Asia
Myanmar = Burma | Naypyidaw | Asia
Nepal | Kathmandu | Asia
North Korea | Pyongyang | Asia
Oman | Muscat | Asia
Pakistan | Islamabad | Asia
Palestine | Ramallah | Asia | That is the seat of government; East Jerusalem is claimed.
the Philippines | Manila | Asia
Qatar | Doha | Asia
Saudi Arabia | Riyadh | Asia
Singapore | Singapore | Asia
South Korea = Korea = the Republic of Korea | Seoul | Asia
Sri Lanka | Sri Jayawardenepura Kotte = Kotte = Colombo | Asia | The largest city is Colombo.
Syria | Damascus | Asia
Taiwan | Taipei | Asia
Tajikistan | Dushanbe | Asia
Thailand | Bangkok | Asia
Turkey = Türkiye | Ankara | Asia = Europe
Turkmenistan | Ashgabat | Asia
the United Arab Emirates = the UAE = the Emirates | Abu Dhabi | Asia
Uzbekistan | Tashkent | Asia
Vietnam | Hanoi | Asia
Yemen | Sanaa = Sana'a | Asia
Albania | Tirana | Europe
Andorra | Andorra la Vella | Europe
Austria | Vienna | Europe
Belarus | Minsk | Europe
Belgium | Brussels | Europe
Bosnia and Herzegovina = Bosnia | Sarajevo | Europe
Bulgaria | Sofia | Europe
Croatia | Zagreb | Europe
Cyprus | Nicosia | Europe = Asia
the Czech Republic = Czechia | Prague | Europe
Denmark | Copenhagen | Europe
Estonia | Tallinn | Europe
Finland | Helsinki | Europe
France | Paris | Europe
Germany | Berlin | Europe
Greece | Athens | Europe
Hungary | Budapest | Europe
Iceland | Reykjavik | Europe
Ireland = the Republic of Ireland | Dublin | Europe
Italy | Rome | Europe
Kosovo | Pristina | Europe
Latvia | Riga | Europe
Liechtenstein | Vaduz | Europe
Lithuania | Vilnius | Europe
Luxembourg | Luxembourg City = Luxembourg | Europe
Malta | Valletta | Europe
Moldova | Chisinau | Europe
Monaco | Monaco | Europe
Montenegro | Podgorica | Europe
the Netherlands = Holland | Amsterdam | Europe
North Macedonia = Macedonia | Skopje | Europe
Norway | Oslo | Europe
Poland | Warsaw | Europe
Portugal | Lisbon | Europe
Romania | Bucharest | Europe
Russia = the Russian Federation | Moscow | Europe = Asia
San Marino | San Marino | Europe
Serbia | Belgrade | Europe
Slovakia | Bratislava | Europe
Slovenia | Ljubljana | Europe
Spain | Madrid | Europe
Sweden | Stockholm | Europe
Switzerland | Bern | Europe
Ukraine | Kyiv = Kiev | Europe
the United Kingdom = the UK = Great Britain = Britain = England | London | Europe
Scotland | Edinburgh | Europe
Wales | Cardiff | Europe
Vatican City = the Vatican | Vatican City | Europe
Antigua and Barbuda | Saint John's = St. John's | North America
the Bahamas | Nassau | North America
Barbados | Bridgetown | North America
Belize | Belmopan | North America
Canada | Ottawa | North America
Costa Rica | San José | North America
Cuba | Havana | North America
Dominica | Roseau | North America
the Dominican Republic | Santo Domingo | North America
El Salvador | San Salvador | North America
Grenada | Saint George's = St. George's | North America
Guatemala | Guatemala City | North America
Haiti | Port-au-Prince | North America
Honduras | Tegucigalpa | North America
Jamaica | Kingston | North America
Mexico | Mexico City | North America
Nicaragua | Managua | North America
Panama | Panama City | North America
Saint Kitts and Nevis = St. Kitts and Nevis | Basseterre | North America
Saint Lucia = St. Lucia | Castries | North America
Saint Vincent and the Grenadines = St. Vincent and the Grenadines | Kingstown | North America
Trinidad and Tobago | Port of Spain | North America
the United States = the USA = the US = America | Washington, D.C. = Washington | North America
Argentina | Buenos Aires | South America
Bolivia | Sucre = La Paz | South America | The seat of government is La Paz.
Brazil | Brasília | South America
Chile | Santiago | South America
Colombia | Bogotá | South America
Ecuador | Quito | South America
Guyana | Georgetown | South America
Paraguay | Asunción | South America
Peru | Lima | South America
Suriname | Paramaribo | South America
Uruguay | Montevideo | South America
Venezuela | Caracas | South America
Australia | Canberra | Oceania = Australia
Fiji | Suva | Oceania
Kiribati | Tarawa = South Tarawa | Oceania
the Marshall Islands | Majuro | Oceania
Micronesia = the Federated States of Micronesia | Palikir | Oceania
Nauru | Yaren | Oceania
New Zealand | Wellington | Oceania
Palau | Ngerulmud | Oceania
Papua New Guinea | Port Moresby | Oceania
Samoa | Apia | Oceania
the Solomon Islands | Honiara | Oceania
Tonga | Nuku'alofa | Oceania
Tuvalu | Funafuti | Oceania
Vanuatu | Port Vila | Oceania
"""


def country(line: str) -> Country:
    """A line of the table."""
    names, capitals, continents, *note = (field.strip() for field in line.split("|"))
    return Country(*(tuple(field.split(" = ")) for field in (names, capitals, continents)), *note)


COUNTRIES: tuple[Country, ...] = tuple(country(line) for line in TABLE.strip().splitlines())

# Cities that are no capitals, by the first name of their country.
CITIES: dict[str, tuple[str, ...]] = {
    name: tuple(cities.split(", "))
    for name, cities in {
        "Algeria": "Oran, Constantine",
        "Argentina": "Córdoba, Rosario, Mendoza",
        "Australia": "Sydney, Melbourne, Brisbane, Perth, Adelaide",
        "Austria": "Salzburg, Graz, Innsbruck, Linz",
        "Bangladesh": "Chittagong",
        "Belgium": "Antwerp, Ghent, Bruges",
        "Brazil": "Rio de Janeiro, São Paulo, Salvador, Recife",
        "Bulgaria": "Plovdiv, Varna",
        "Cameroon": "Douala",
        "Canada": "Toronto, Montreal, Vancouver, Calgary, Quebec City",
        "Chile": "Valparaíso",
        "China": "Shanghai, Hong Kong, Guangzhou, Shenzhen, Wuhan",
        "Colombia": "Medellín, Cali, Cartagena",
        "Croatia": "Split, Dubrovnik",
        "the Czech Republic": "Brno, Ostrava",
        "Denmark": "Aarhus, Odense",
        "Ecuador": "Guayaquil",
        "Egypt": "Alexandria, Luxor, Giza",
        "Finland": "Turku, Tampere",
        "France": "Lyon, Marseille, Nice, Toulouse, Bordeaux, Strasbourg, Lille",
        "Germany": "Munich, Hamburg, Frankfurt, Cologne, Stuttgart, Dresden, Leipzig, Bonn",
        "Ghana": "Kumasi",
        "Greece": "Thessaloniki",
        "Hungary": "Debrecen, Szeged",
        "India": "Mumbai, Kolkata, Chennai, Bangalore, Hyderabad, Jaipur",
        "Indonesia": "Surabaya, Bandung, Medan",
        "Iran": "Isfahan, Shiraz",
        "Iraq": "Basra, Mosul",
        "Ireland": "Cork, Galway, Limerick",
        "Israel": "Tel Aviv, Haifa",
        "Italy": "Milan, Venice, Naples, Florence, Turin, Bologna, Palermo",
        "Ivory Coast": "Abidjan",
        "Japan": "Osaka, Kyoto, Nagoya, Hiroshima, Yokohama, Sapporo",
        "Kazakhstan": "Almaty",
        "Kenya": "Mombasa, Kisumu",
        "Mexico": "Guadalajara, Monterrey, Cancún, Tijuana",
        "Morocco": "Casablanca, Marrakesh, Fez, Tangier",
        "Myanmar": "Yangon, Mandalay",
        "the Netherlands": "Rotterdam, The Hague, Utrecht, Eindhoven",
        "New Zealand": "Auckland, Christchurch, Dunedin",
        "Nigeria": "Lagos, Kano, Ibadan",
        "Norway": "Bergen, Trondheim",
        "Pakistan": "Karachi, Lahore",
        "Peru": "Cusco, Arequipa",
        "the Philippines": "Cebu, Davao",
        "Poland": "Krakow, Gdansk, Wroclaw, Poznan",
        "Portugal": "Porto, Coimbra",
        "Russia": "Saint Petersburg, Kazan, Vladivostok",
        "Saudi Arabia": "Mecca, Medina, Jeddah",
        "South Africa": "Johannesburg, Durban",
        "South Korea": "Busan, Incheon",
        "Spain": "Barcelona, Seville, Valencia, Bilbao, Granada",
        "Sweden": "Gothenburg, Malmö, Uppsala",
        "Switzerland": "Zurich, Geneva, Basel, Lausanne",
        "Syria": "Aleppo",
        "Tanzania": "Dar es Salaam",
        "Thailand": "Chiang Mai, Phuket",
        "Turkey": "Istanbul, Izmir, Antalya",
        "Ukraine": "Odesa, Lviv, Kharkiv",
        "the United Arab Emirates": "Dubai, Sharjah",
        "the United Kingdom": "Manchester, Liverpool, Oxford, Glasgow, Birmingham, Leeds",
        "the United States": "New York, Los Angeles, Chicago, Boston, Seattle, Miami, San Francisco, "
        "Houston, Las Vegas, New Orleans, Dallas, Denver",
        "Vietnam": "Ho Chi Minh City, Da Nang",
    }.items()
}

# Places that have no capital in the table, as they are no countries.
REGIONS = (
    "Texas, California, Florida, Alaska, Hawaii, Nevada, Ohio, Oregon, Utah, Arizona, Colorado, Montana, "
    "Iowa, Kansas, Virginia, Alabama, Bavaria, Saxony, Tuscany, Sicily, Catalonia, Andalusia, Normandy, "
    "Brittany, Quebec, Ontario, Alberta, Manitoba, Queensland, Tasmania, Punjab, Kerala, Siberia, "
    "Lapland"
).split(", ")

CONTINENTS = ("Africa", "Asia", "Europe", "North America", "South America", "Oceania", "Antarctica")

# Countries of stories; HELD_OUT ones are for exams.
STORY_COUNTRIES = (
    "Narnia, Atlantis, Blorvia, Wakanda, Mordor, Gondor, Oz, Neverland, Lilliput, Utopia, Westeros, "
    "Hyrule, Ruritania, Camelot, El Dorado, Latveria, Rohan, Wonderland, Zamunda, Freedonia, Arendelle, "
    "Agrabah, Lemuria"
).split(", ")
STORY_COUNTRIES_HELD_OUT = "Genovia, Sokovia, Elbonia, Brobdingnag, Laputa, Panem, Zembla, Syldavia".split(
    ", "
)
