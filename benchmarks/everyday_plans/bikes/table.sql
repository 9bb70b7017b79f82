SELECT i AS trip_id, CAST(floor(random()*30000) AS INT) AS rider,
 TIMESTAMP '2024-01-01' + to_seconds(CAST(floor(random()*366*86400) AS BIGINT)) AS started,
 CAST(floor(40+ -ln(random())*900) AS INT) AS duration_s,
 CASE WHEN random()<0.01 THEN NULL WHEN random()<0.02 THEN 'Depot' ELSE ['Alexanderplatz','Bahnhof Zoo','Friedrichstraße','Hauptbahnhof','Kotti','Ostkreuz','Potsdamer Platz','Rathaus','Südkreuz','Warschauer'][1+CAST(floor(10*pow(random(),1.6)) AS INT)] END AS start_station,
 CASE WHEN random()<0.04 THEN NULL ELSE ['Alexanderplatz','Bahnhof Zoo','Friedrichstraße','Hauptbahnhof','Kotti','Ostkreuz','Potsdamer Platz','Rathaus','Südkreuz','Warschauer','Nowhere'][1+CAST(floor(11*random()) AS INT)] END AS end_station,
 CASE WHEN random()<0.03 THEN NULL ELSE random()<0.6 END AS member,
 ['classic','electric','cargo','test'][1+CAST(floor(4*pow(random(),3)) AS INT)] AS bike,
 CASE WHEN random()<0.02 THEN NULL ELSE round(pow(random(),3)*45,2) END AS fee,
 CASE WHEN random()<0.3 THEN NULL ELSE 2012-CAST(floor(pow(random(),1.5)*95) AS INT) END AS birth_year
FROM range(80000) t(i)
