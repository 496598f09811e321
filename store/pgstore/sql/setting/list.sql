-- All settings.
select key, value from courier.system_settings
